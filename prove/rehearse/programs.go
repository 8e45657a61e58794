package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// program is a module that requires some of sash.
type program struct {
	name  string
	get   []string // module@version
	code  string
	url   string   // answers 200 at first, and 429 at last; empty: the program is not started
	graph []string // path and version of each module that it gets
}

var readmeProgram = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")

// runPrograms runs the README's program, one of each module, and that of gin with the newest versions.
func (r *rehearsal) runPrograms(newest []string, update bool) {
	var all []program
	for _, folder := range modules {
		p := program{name: path.Base(folder)}
		p.get = []string{sash + "@" + r.version, path.Join(sash, folder) + "@" + r.version}
		switch {
		case folder == "":
			readme := must(os.ReadFile(filepath.Join(r.clone, "README.md")))
			p.name, p.code, p.url = "readme", string(readmeProgram.FindSubmatch(readme)[1]), "/"
		case strings.HasPrefix(folder, "extra/"):
			p.code = "package main\n\nimport _ \"" + path.Join(sash, folder) + "\"\n\nfunc main() {}\n"
		default:
			example := must(os.ReadFile(filepath.Join(r.clone, "examples", folder, "main.go")))
			p.code, p.url = string(example), "/api/data"
		}
		all = append(all, p)
	}
	last := all[slices.Index(modules, "gin")]
	last.name, last.get = "newest", append(last.get, newest...)
	all = append(all, last)
	check(inParallel(len(all), func(i int) error {
		err := r.try(&all[i])
		if err != nil {
			err = fmt.Errorf("the program %s: %w", all[i].name, err)
		}
		return err
	}))
	fmt.Println("ok:", len(all), "programs")
	r.compareGraph(all[:len(all)-1], update)
}

// try makes the program, vets it, runs it and fills in its graph.
func (r *rehearsal) try(p *program) error {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	address := listener.Addr().String()
	check(listener.Close())
	dir := filepath.Join(r.programs, p.name)
	check(os.MkdirAll(dir, 0o700))
	code := strings.Replace(p.code, `"127.0.0.1:8080"`, `"`+address+`"`, 1)
	check(os.WriteFile(filepath.Join(dir, "main.go"), []byte(code), 0o600))
	var listed string
	var err error
	for _, args := range [][]string{{"mod", "init", "program"}, append([]string{"get"}, p.get...), {"mod", "tidy"},
		{"vet", "."}, {"build", "-o", "program", "."}, {"list", "-m", "-f", "{{if not .Main}}{{.}}{{end}}", "all"}} {
		if listed, err = r.goIn(dir, args...); err != nil {
			return err
		}
	}
	p.graph = strings.Split(strings.TrimSpace(listed), "\n")
	if p.url == "" {
		return nil
	}
	server := exec.Command("./program")
	server.Dir = dir
	check(server.Start())
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	return ask("http://" + address + p.url)
}

// ask sends requests until one is refused. The limits of all programs are below 200.
func ask(url string) error {
	start, admitted := time.Now(), 0
	for admitted < 200 {
		response, err := http.Get(url)
		if err != nil {
			if admitted > 0 || time.Since(start) > 30*time.Second { // it has yet to listen
				return err
			}
			time.Sleep(20 * time.Millisecond)
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests && admitted > 0 {
			return nil
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("after %d of 200 it answers %s", admitted, response.Status)
		}
		admitted++
	}
	return fmt.Errorf("it refuses none of %d requests", admitted)
}

// compareGraph holds graph.txt: each module that a program gets beside sash, and the programs that get it.
func (r *rehearsal) compareGraph(all []program, update bool) {
	users := map[string][]string{}
	for _, p := range all {
		for _, m := range p.graph {
			if name, _, _ := strings.Cut(m, " "); !isSash(name) {
				users[m] = append(users[m], p.name)
			}
		}
	}
	var lines []string
	for m, names := range users {
		lines = append(lines, fmt.Sprintf("%-50s %s\n", m, strings.Join(names, " ")))
	}
	slices.Sort(lines)
	got := strings.Join(lines, "")
	file := filepath.Join(r.source, "prove/rehearse/graph.txt")
	if update {
		check(os.WriteFile(file, []byte(got), 0o600))
	}
	if want := string(must(os.ReadFile(file))); want != got {
		held := strings.SplitAfter(want, "\n")
		other := slices.DeleteFunc(lines, func(line string) bool { return slices.Contains(held, line) })
		log.Fatalf("programs get other modules than graph.txt says; REHEARSEFLAGS=-update writes it. New:\n%s", other)
	}
	fmt.Println("ok: graph.txt")
}
