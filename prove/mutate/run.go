package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pkg is a package, and its test program.
type pkg struct {
	dir, log string
	mutants  []*mutant
	files    map[string][]*mutant // of each file that has mutants
	stages   []stage
}

// stage is a part of the tests.
type stage struct {
	args    []string
	timeout time.Duration
}

// compile makes the test program, with other texts for some files.
func (p *pkg) compile(overlay map[string]string) (out string, err error) {
	replace := map[string]string{}
	for path, source := range overlay {
		if replace[path], err = filepath.Abs(filepath.Join(p.log+".d", filepath.Base(path)+".txt")); err != nil {
			return "", err
		}
		if err = os.WriteFile(replace[path], []byte(source), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := p.log + ".json"
	if err = os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	all, err := exec.Command("go", "test", "-c", "-gcflags=-e", "-overlay", file, "-o", p.log+".test", "./"+p.dir).
		CombinedOutput()
	return string(all), err
}

// command runs the test program for a mutant, and ends it and what it has started once it has computed for so long, or
// waited for three times as long: a busy machine kills no mutant.
func (p *pkg) command(env string, timeout time.Duration, args ...string) (string, error) {
	program, err := filepath.Abs(p.log + ".test")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*timeout)
	defer cancel()
	// A mutant must not take all memory.
	shell := fmt.Sprintf(`ulimit -v 8000000; ulimit -t %d; exec "$0" "$@"`, int(timeout.Seconds()))
	c := exec.CommandContext(ctx, "sh", append([]string{"-c", shell, program}, args...)...)
	c.Dir, c.Env, c.WaitDelay = p.dir, append(os.Environ(), "MUTANT="+env), time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, err := c.CombinedOutput()
	return string(out), err
}

// scriptTests are the tests that run scripts, and deadliest is one that kills most
// mutants, in its first histories.
const (
	scriptTests = "^Test(Script[A-Z]|Return|Charge|Format|Coarse|Bucket|LeaseS|SmallWorlds$)"
	deadliest   = "TestScriptAgainstModel"
)

var (
	passed = regexp.MustCompile(`(?m)^ *--- PASS: (\w+)\S* \((.*)s\)$`) // subtests too
	failed = regexp.MustCompile(`(?m)^--- FAIL: \w+`)
)

// order runs the tests without a mutant, and makes stages of them: the first takes half a second, the next 4. Tests
// that fail so are left out; they hold that functions are inlined, for example. Of the scripts, the tests run on Redis,
// and then on miniredis and with Lua 5.4.
func (p *pkg) order() error {
	begun, tests := time.Now(), "."
	if p.dir == scripts {
		tests = scriptTests
	}
	others, redis := "/(miniredis|Lua)", "/redis$"
	out, err := p.command("", 10*time.Minute, "-test.v", "-test.run", tests, "-test.skip", others)
	took := map[string]float64{}
	for _, found := range passed.FindAllStringSubmatch(out, -1) {
		seconds, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			return err
		}
		took[found[1]] += seconds
	}
	if len(took) == 0 {
		return fmt.Errorf("no test passes: %w\n%s", err, out)
	}
	if err != nil {
		fmt.Printf("%s: left out: %v\n", p.dir, failed.FindAllString(out, -1))
	}
	first := took[deadliest]
	delete(took, deadliest)
	names := slices.SortedFunc(maps.Keys(took), func(a, b string) int { return cmp.Compare(took[a], took[b]) })
	whole, sum, from, enough := time.Since(begun).Seconds(), 0.0, 0, 0.5
	for i, name := range names {
		if sum += took[name]; sum >= enough || i == len(names)-1 {
			p.stages = append(p.stages, p.stage(names[from:i+1], others, min(sum, whole)))
			from, sum, enough = i+1, 0, 8*enough
		}
	}
	if tests != "." {
		p.stages = append([]stage{p.stage([]string{deadliest}, others, first)}, p.stages...)
		p.stages = append(p.stages, p.stage(append(names, deadliest), redis, 3*whole))
	}
	for _, s := range p.stages { // else all would be killed
		if out, err := p.command("", s.timeout, s.args...); err != nil {
			return fmt.Errorf("without a mutant: %w\n%s", err, out)
		}
	}
	return nil
}

// stage returns the stage of tests that take so many seconds.
func (p *pkg) stage(names []string, skip string, seconds float64) stage {
	args := []string{"-test.failfast", "-test.skip", skip, "-test.run", "^(" + strings.Join(names, "|") + ")$"}
	return stage{args, time.Duration((4 + 3*seconds) * float64(time.Second))}
}

// run tries the next stage on a mutant. Status 9 is that of a script which is no Lua.
func (p *pkg) run(m *mutant) {
	s := p.stages[m.passed]
	_, err := p.command(m.env, s.timeout, s.args...)
	if err == nil {
		m.passed++
		m.survived = m.passed == len(p.stages)
		return
	}
	var exit *exec.ExitError
	m.unfit = errors.As(err, &exit) && exit.ExitCode() == 9
	m.killed = !m.unfit
}
