// Command prove tries every claim of sash at length, and writes what came of it to prove/README.md.
//
//	make prove                                      # all parts but Soak and Fuzz, in half an hour on two cores
//	make prove PROVEFLAGS='-only Soak'              # 27 minutes; Fuzz takes 12 to 22
//	make prove PROVEFLAGS='-only Linear -seed 7'    # some parts, as they were
//	make prove PROVEFLAGS=-short                    # what make test does not try, in a minute; nothing is written
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// part is a section of prove/README.md, where its claim stands. Each command is a line; SEED stands for the seed. The
// short form runs brief in place of long, or nothing. The page gets what sees matches of what a command prints; if
// nothing does, the part has failed.
type part struct {
	name, long, brief, sees string
}

const proved = `proved: (.*)`

var apart = map[string]bool{"Soak": true, "Fuzz": true} // run by their names alone, since they take long

var parts = []part{
	{"Worlds", "go test -count=1 -timeout 20m -v -run TestSmallWorlds ./core/internal/window -args -long\n" +
		"go test -count=1 -timeout 20m -v -run TestSmallWorlds ./core/memstore -args -long\n" +
		"go test -count=1 -timeout 20m -v -run TestSmallWorlds ./core/redisstore/internal/script -args -long",
		"", proved},
	{"Adversary", "go test -count=1 -timeout 20m -v -run ^TestAdversary$ ./core/internal/window -args -long", "",
		proved},
	{"Linear", "go -C prove test -count=1 -timeout 20m -v -run ^TestLinearizable$ . -args -for 60s -seed SEED",
		"go -C prove test -count=1 -timeout 20m -v -run ^TestLinearizable$ . -args -for 8s -seed SEED", proved},
	{"Histories", "make histories HISTORYFLAGS='-seed SEED'", "", proved},
	{"Attack", "make attack", "", proved},
	{"Borders", "go test -count=1 -timeout 20m -v -run ^TestFirstKeyProxy$ ./core/redisstore\n" +
		"go test -count=1 -timeout 20m -v -run ^TestFarStore$ ./core/redisstore", "", proved},
	{"Soak", "go -C prove test -count=1 -timeout 40m -v -run ^TestSoak$ . -args -for 20m -seed SEED", "", proved},
	{"Fuzz", "make fuzz FUZZTIME=10m FUZZJOBS=17", "", `(?m)^(Fuzz\w+: \d+ inputs)`},
}

// outcome is what came of a part.
type outcome struct {
	part
	seen []string
	took time.Duration
	err  error

	commit string // when it began
}

// try runs the commands of a part.
func (p part) try(commands string, seed uint64) outcome {
	commit, _ := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	o := outcome{part: p, commit: strings.TrimSpace(string(commit))}
	began := time.Now()
	for command := range strings.Lines(commands) {
		command = strings.ReplaceAll(strings.TrimSpace(command), "SEED", fmt.Sprint(seed))
		fmt.Println("==", command)
		var out bytes.Buffer
		run := exec.Command("sh", "-c", strings.ReplaceAll(command, "$", `\$`))
		run.Dir, run.Stdout, run.Stderr = "..", &out, &out
		err := run.Run()
		found := regexp.MustCompile(p.sees).FindAllStringSubmatch(out.String(), -1)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("nothing like %s was printed", p.sees)
		}
		if err != nil {
			o.err = fmt.Errorf("%s: %w", command, err)
			fmt.Println(out.String())
			break
		}
		for _, line := range found {
			o.seen = append(o.seen, strings.Join(strings.Fields(strings.ReplaceAll(line[1], "|", ", ")), " "))
			fmt.Println("  ", o.seen[len(o.seen)-1])
		}
	}
	o.took = time.Since(began)
	return o
}

const (
	page    = "README.md"
	mutants = "mutants.txt"
)

// result returns what the page says of the part after its words.
func (o outcome) result(seed uint64) string {
	if o.err != nil {
		o.seen = []string{"**it failed**"}
	}
	return fmt.Sprintf("- %s\n\n%s, commit %s, %d cores, %s/%s, %v: `make prove PROVEFLAGS='-only %s -seed %d'`\n",
		strings.Join(o.seen, "\n- "), time.Now().Format(time.DateOnly), o.commit, runtime.NumCPU(),
		runtime.GOOS, runtime.GOARCH, o.took.Round(time.Second), o.name, seed)
}

// write replaces what the page says after the words of a section, from its list on.
func write(name, result string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	sections := strings.Split(string(text), "\n## ")
	for i, section := range sections {
		if strings.HasPrefix(section, name+"\n") {
			words, _, _ := strings.Cut(section, "\n- ")
			words, _, _ = strings.Cut(words, "\n```text\n")
			sections[i] = words + "\n" + result
			return os.WriteFile(page, []byte(strings.Join(sections, "\n## ")), 0o644)
		}
	}
	return fmt.Errorf("%s has no section %s", page, name)
}

func main() {
	short := flag.Bool("short", false, "only what make test does not try")
	only := flag.String("only", "", "the parts whose names match")
	seed := flag.Uint64("seed", rand.Uint64()>>32, "of what is random")
	flag.Parse()
	fmt.Println("seed", *seed)
	began, failed := time.Now(), false
	for _, p := range parts {
		commands := p.long
		if *short {
			commands = p.brief
		}
		if commands == "" || *only == "" && apart[p.name] || !regexp.MustCompile(*only).MatchString(p.name) {
			continue
		}
		o := p.try(commands, *seed)
		if !*short {
			o.err = errors.Join(o.err, write(p.name, o.result(*seed)))
		}
		if o.err != nil {
			failed = true
			fmt.Printf("FAILED: %s\nrepeat it by: make prove PROVEFLAGS='-only %s -seed %d'\n", o.err, p.name, *seed)
		}
	}
	table, err := os.ReadFile(mutants)
	if err == nil && !*short {
		err = write("Mutants", "```text\n"+string(table)+"```\n")
	}
	if err != nil {
		fmt.Println(err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
	fmt.Println("all held, in", time.Since(began).Round(time.Second))
}
