// Command mutate changes one operator, number, operand or statement of a package at a time, and runs the package's
// tests: a change that no test notices is a hole in the tests, or code that does nothing. It prints such survivors, and
// fails if there is one that explained.txt does not explain. It runs in the folder of the module sash.
//
//	make mutants MUTANTFLAGS='-pkg core/internal/window -sample 50'
//
// All mutants of a package are in one test program, which is compiled once; the environment variable MUTANT chooses
// one. All mutants are given the quick tests first. One that does not end is killed. What has been killed is kept in
// .build/mutants, and not tried again unless -fresh is given.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	only    = flag.String("only", "", "try only mutants with this `text` in their names or places")
	sample  = flag.Int("sample", 0, "try so many mutants of each package, chosen by -seed")
	seed    = flag.Uint64("seed", uint64(time.Now().UnixNano()), "the seed of the sample")
	workers = flag.Int("j", 2, "how many mutants are tried at a time")
	limit   = flag.Duration("time", 2*time.Hour, "stop after this time; the next run goes on")
	fresh   = flag.Bool("fresh", false, "try again what was killed before")
	folder  = flag.String("pkg", "", "the `folder` of the only package to try")
)

var begun = time.Now()

// packages have the mutants that are tried.
var packages = []string{
	"core/internal/window", scripts, "core/internal/lease", "core/internal/denycache",
	"core/redisstore/internal/batch", "core/memstore", "extra/regions",
}

// scripts is the package of which the Lua is mutated. Its tests run these mutants, on servers.
const scripts = "core/redisstore/internal/script"

const (
	// A line for each, and one that begins with a tab and says why. A line is "package: mutant", with or without the
	// name of the function, and knows neither files nor comments, so that code can be moved and comments mended.
	explained = "prove/mutate/explained.txt"
	table     = "prove/mutants.txt"
)

type mutant struct {
	name      string // the same until the code changes: the line, and the edit
	where     string // the file and the line, for a reader
	function  string // of Go
	env       string // the value of MUTANT
	unfit     bool   // no program
	killed    bool
	survived  bool // when it was tried last
	explained bool
	passed    int    // how many stages
	code      string // of Go, see schemata
	offset    int    // where its function begins, of Go
	line      int
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	if *folder != "" {
		packages = []string{filepath.Clean(*folder)}
	}
	survivors := 0
	for _, dir := range packages {
		if time.Since(begun) > *limit {
			break
		}
		p := &pkg{dir: dir, log: filepath.Join(".build/mutants", strings.ReplaceAll(dir, "/", "-"))}
		if err := p.prepare(); err != nil {
			log.Fatal(err)
		}
		for _, m := range p.try(p.chosen()) {
			if m.survived {
				survivors++
				fmt.Printf("SURVIVES %s: %s: %s\n", m.where, p.dir, m.name)
			}
		}
		if *sample == 0 && *only == "" {
			p.sum()
		}
	}
	if survivors > 0 {
		log.Fatalf("%d survivors are not explained", survivors)
	}
}

// find finds the mutants of the package. It returns them by their names, and an error for each entry of explained.txt
// that does not fit one of them alone.
func (p *pkg) find() (map[string]*mutant, error) {
	p.files = map[string][]*mutant{}
	read := p.findGo
	if p.dir == scripts {
		read = p.findLua
	}
	if err := read(); err != nil {
		return nil, err
	}
	byName := p.name()
	var errs []error
	for _, line := range lines(explained) {
		name, ok := strings.CutPrefix(line, p.dir+": ")
		switch {
		case !ok:
		case byName[name] == nil:
			errs = append(errs, fmt.Errorf("%s explains a mutant that is not there, or one of several: %s",
				explained, line))
		case byName[name].explained:
			errs = append(errs, fmt.Errorf("%s explains a mutant twice: %s", explained, line))
		default:
			byName[name].explained = true
		}
	}
	return byName, errors.Join(errs...)
}

// prepare finds the mutants, compiles the package with them, and reads the known results.
func (p *pkg) prepare() error {
	byName, err := p.find()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.log+".d", 0o700); err != nil {
		return err
	}
	compile := p.compileGo
	if p.dir == scripts {
		compile = p.compileLua
	}
	if err := compile(); err != nil {
		return err
	}
	for _, line := range lines(p.log) {
		state, name, _ := strings.Cut(line, " ")
		if m := byName[name]; m != nil {
			m.unfit = m.unfit || state == "unfit"
			m.killed, m.survived = state == "killed" && !*fresh, state == "survived" && !*fresh
		}
	}
	return p.order()
}

// name gives each mutant a name of its own, which begins with the function, and has a number if there are several. It
// returns the mutants by these names and, where only one has it, by the name without the function.
func (p *pkg) name() map[string]*mutant {
	byName, short := map[string]*mutant{}, map[string][]*mutant{}
	for _, m := range p.mutants {
		short[m.name] = append(short[m.name], m)
		m.name = strings.TrimPrefix(m.function+": "+m.name, ": ")
		for n, name := 2, m.name; byName[m.name] != nil; n++ {
			m.name = fmt.Sprintf("%s #%d", name, n)
		}
		byName[m.name] = m
	}
	for name, all := range short {
		if len(all) == 1 {
			byName[name] = all[0]
		}
	}
	return byName
}

func lines(path string) []string {
	text, _ := os.ReadFile(path) // may not be there yet
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// chosen returns the mutants to try, in random order, known survivors last.
func (p *pkg) chosen() (all []*mutant) {
	for _, m := range p.mutants {
		if !m.unfit && !m.explained && (*sample > 0 || !m.killed) && strings.Contains(m.where+m.name, *only) {
			all = append(all, m)
		}
	}
	fmt.Printf("%s: %d mutants, -seed %d\n", p.dir, len(all), *seed)
	rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if *sample > 0 {
		return all[:min(*sample, len(all))]
	}
	slices.SortStableFunc(all, func(a, b *mutant) int {
		return strings.Compare(strconv.FormatBool(a.survived), strconv.FormatBool(b.survived))
	})
	return all
}

// try tries mutants until the time is over, the slow stages last, and returns the tried ones.
func (p *pkg) try(all []*mutant) (tried []*mutant) {
	for _, m := range all {
		m.killed, m.survived = false, false
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	for range *workers {
		group.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for len(all) > 0 && time.Since(begun) < *limit {
				m := all[0]
				all = all[1:]
				mu.Unlock()
				p.run(m)
				mu.Lock()
				if m.killed || m.unfit || m.survived {
					tried = append(tried, m)
				} else {
					all = append(all, m)
				}
				p.keep()
			}
		})
	}
	group.Wait()
	if len(all) > 0 {
		fmt.Printf("%s: %d mutants are left for the next run\n", p.dir, len(all))
	}
	return tried
}

// keep writes the results down.
func (p *pkg) keep() {
	var b strings.Builder
	for _, m := range p.mutants {
		for state, is := range map[string]bool{"unfit": m.unfit, "killed": m.killed, "survived": m.survived} {
			if is {
				fmt.Fprintln(&b, state, m.name)
			}
		}
	}
	if err := os.WriteFile(p.log, []byte(b.String()), 0o600); err != nil {
		log.Fatal(err)
	}
}

// sum writes the line of the package in the table.
func (p *pkg) sum() {
	all, killed, excused, survived := 0, 0, 0, 0
	for _, m := range p.mutants {
		switch {
		case m.unfit:
			continue
		case m.explained:
			excused++
		case m.killed:
			killed++
		case m.survived:
			survived++
		}
		all++
	}
	commit, _ := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	line := fmt.Sprintf("%-32s %7d %7d %9d %9d %7d  %s  %s", p.dir, all, killed, excused, survived,
		all-killed-excused-survived, time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)))
	rest := slices.DeleteFunc(lines(table)[1:], func(l string) bool { return strings.HasPrefix(l, p.dir+" ") })
	rest = append(rest, line)
	slices.Sort(rest)
	head := fmt.Sprintf("%-32s %7s %7s %9s %9s %7s  %-10s  %s\n",
		"package", "mutants", "killed", "explained", "survivors", "untried", "date", "commit")
	if err := os.WriteFile(table, []byte(head+strings.Join(rest, "\n")+"\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	fmt.Print(head, line, "\n")
}
