// Command prove tries every claim of sash at length, and writes what came of it to docs/proof.md.
//
//	make prove                                      # all parts but Soak and Fuzz, in half an hour on two cores
//	make prove PROVEFLAGS='-only Soak'              # 25 minutes; Fuzz takes 12
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

// part is a claim, and the commands that try it. Each command is a line; SEED stands for the seed. In the short form
// brief is run in place of long, or nothing. Of what a command prints, what sees matches is told; if nothing does, the
// part has failed.
type part struct {
	name, claim, long, brief, sees string
}

const proved = `proved: (.*)`

var apart = map[string]bool{"Soak": true, "Fuzz": true} // run by their names alone, since they take long

var parts = []part{
	{
		"Worlds", "In every history of a small world, each answer is that of the definition.",
		"go test -count=1 -timeout 20m -v -run TestSmallWorlds ./core/internal/window -args -long\n" +
			"go test -count=1 -timeout 20m -v -run TestSmallWorlds ./core/memstore -args -long\n" +
			"go test -count=1 -timeout 20m -v -run TestSmallWorlds ./core/redisstore -args -long", "", proved,
	},
	{
		"Adversary", "No arrivals bring a log above its limit, a counter above twice that, or regions above a bound.",
		"go test -count=1 -timeout 20m -v -run ^TestAdversary$ ./core/internal/window -args -long\n" +
			"go test -count=1 -timeout 20m -v -run ^TestAdversary$ ./core/regions -args -long", "", proved,
	},
	{
		"Linear", "What concurrent callers are told is as if one came after the other, also while connections are cut.",
		"go -C prove test -count=1 -timeout 20m -v -run ^TestLinearizable$ . -args -for 60s -seed SEED",
		"go -C prove test -count=1 -timeout 20m -v -run ^TestLinearizable$ . -args -for 8s -seed SEED", proved,
	},
	{
		"Soak", "At full speed by all verbs, while servers are killed and fill up, nothing grows.",
		"go -C prove test -count=1 -timeout 40m -v -run ^TestSoak$ . -args -for 20m -seed SEED", "", proved,
	},
	{
		"Fuzz", "No input breaks what a parser, a reader of replies or a count promises.",
		"make fuzz FUZZTIME=10m FUZZJOBS=17", "", `(?m)^(Fuzz\w+: \d+ inputs)`,
	},
	{
		"Histories", "In random histories, both stores answer like a slow model.", "make histories", "",
		`(?m)^ok\s+\S*/(\S+)`,
	},
	{
		"Chaos", "Whatever fails, nobody is wrongly admitted or refused where no data are lost.",
		"go test -count=1 -timeout 30m -v -run ^TestChaos$ ./core/redisstore -args -chaos 5m -chaos.seed SEED", "",
		`goroutines, (\d+ rounds, seed \d+)`,
	},
	{
		"Attack", "Servers of five frameworks stand hostile requests, and a hostile Redis.", "make attack", "",
		`(?m)^ *([a-z ]+\| *all \d+ attacks *\| *\d+)`,
	},
	{
		"Regions", "A region that is cut off stays within the bound, and a strict limit holds.",
		"make regions REGIONFLAGS='-for 30s'\nmake regions REGIONFLAGS='-for 30s -strict'",
		"make regions REGIONFLAGS='-for 10s'\nmake regions REGIONFLAGS='-for 10s -strict'",
		`(?m)^((?:\d+ in \S+, asked|most in any).*)`,
	},
	{
		"Traffic", "Servers of five frameworks at full speed keep one limit, and one server does in memory.",
		"go test -count=1 -timeout 20m -v -run ^TestTraffic$ ./examples -args -for 70s", "", proved,
	},
}

// outcome is what came of a part.
type outcome struct {
	part
	seen []string
	took time.Duration
	err  error
}

// try runs the commands of a part.
func (p part) try(commands string, seed uint64) outcome {
	o := outcome{part: p}
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

const head = `# What was tried

Written by ` + "`make prove`" + `, a line by each part. A part is repeated by its name and seed:
` + "`make prove PROVEFLAGS='-only Worlds -seed 7'`" + `. Worlds, Adversary, Linear, Soak and Traffic are shown
something wrong in the same run, and must find it. A *mutant* is a change of the limit, the clock, the cost or the
script; a *forged* answer is one that was never given; each column of a picture is a 60th of the time. What the tests of
each package notice of changes in its code is in [mutants.txt](../prove/mutants.txt), by ` + "`make mutants`" + `.

| part | claim | what was seen | when |
|---|---|---|---|
`

// row returns the line of the page.
func (o outcome) row(seed uint64) string {
	if o.err != nil {
		o.seen = []string{"**it failed**"}
	}
	commit, _ := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	return fmt.Sprintf("| %s | %s | %s | %s, %s, %d cores, %s/%s, %v, seed %d |\n", o.name, o.claim,
		strings.Join(o.seen, "; "), time.Now().Format(time.DateOnly), bytes.TrimSpace(commit),
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, o.took.Round(time.Second), seed)
}

// write writes the line of a part into the page, and leaves those of others as they are.
func (o outcome) write(path string, seed uint64) error {
	old, _ := os.ReadFile(path) // there may be none yet
	page := head
	for _, p := range parts {
		if p.name == o.name {
			page += o.row(seed)
			continue
		}
		page += regexp.MustCompile(`(?m)^\| ` + p.name + ` \|.*\n`).FindString(string(old))
	}
	return os.WriteFile(path, []byte(page), 0o644)
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
			o.err = errors.Join(o.err, o.write("../docs/proof.md", *seed))
		}
		if o.err != nil {
			failed = true
			fmt.Printf("FAILED: %s\nrepeat it by: make prove PROVEFLAGS='-only %s -seed %d'\n", o.err, p.name, *seed)
		}
	}
	if failed {
		os.Exit(1)
	}
	fmt.Println("all held, in", time.Since(began).Round(time.Second))
}
