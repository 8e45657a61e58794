// Command rehearse tries what a release will bring to a program. It makes the module zips of HEAD, serves them from a
// folder as a Go proxy, and requires them from modules outside the checkout. It publishes nothing.
//
//	go run . [-base v0.1.0] [-version v0.1.1] [-update] [module@version ...]
//	go run . -write v0.1.0
//
// The arguments are the newest versions that the last program requires. A version that has a tag is that tag, as it is.
// Any other is HEAD, with the version written into its go.mod files: -write does that in the checkout, and no more.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/mod/semver"
)

const (
	sash      = "github.com/sashlimit/sash"
	gorelease = "golang.org/x/exp/cmd/gorelease@v0.0.0-20261113113407-e3970619a1a4"
)

// modules are the folders of the modules that programs require, as docs/modules_test.go has them.
var modules = []string{"", "chi", "gin", "echo", "echo5", "extra/sashprom", "extra/sashotel", "extra/sashgrpc"}

// rehearsal is one run: what it tries, and where.
type rehearsal struct {
	base, version string
	source        string // the checkout
	clone         string // of the checkout: versions are written and committed there
	programs      string // the folder of the modules that require sash
	proxy         string // the folder that is the first GOPROXY
	env           []string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("rehearse: ")
	r := rehearsal{source: output(exec.Command("git", "rev-parse", "--show-toplevel"))}
	flag.StringVar(&r.base, "base", "v0.1.0", "hold the API against that of this `version`")
	flag.StringVar(&r.version, "version", "v0.1.1", "rehearse this `version`")
	update := flag.Bool("update", false, "write graph.txt instead of comparing it")
	write := flag.String("write", "", "write this `version` into the go.mod files of the checkout")
	flag.Parse()
	for _, version := range []string{r.base, r.version, *write} {
		if version != "" && semver.Canonical(version) != version {
			log.Fatalf("version %q: want one such as v0.1.1", version)
		}
	}
	if *write != "" {
		writeVersions(r.source, *write)
		return
	}
	temp := must(os.MkdirTemp("", "rehearse")) // stays if something fails
	r.clone, r.programs = filepath.Join(temp, "clone"), filepath.Join(temp, "programs")
	r.prepare()
	r.publish(r.base)
	r.publish(r.version)
	r.compareAPI()
	r.runPrograms(flag.Args(), *update)
	r.runCommand()
	r.retract()
	check(os.RemoveAll(temp))
}

// prepare makes the clone, an empty proxy and a module cache without sash. Everything else comes from the cache of the
// user, or by the proxy of the user. Both stay for the next run, which is quicker then.
func (r *rehearsal) prepare() {
	dir := filepath.Join(must(os.UserCacheDir()), "sash-rehearse")
	r.proxy = filepath.Join(dir, "proxy")
	cache := filepath.Join(dir, "mod")
	for _, old := range []string{r.proxy, cache + "/" + path.Dir(sash), cache + "/cache/download/" + path.Dir(sash)} {
		check(os.RemoveAll(old))
	}
	check(os.MkdirAll(r.programs, 0o700))
	output(exec.Command("git", "clone", "--quiet", r.source, r.clone))
	user := func(name string) string { return output(exec.Command("go", "env", name)) }
	proxies := []string{"file://" + r.proxy, "file://" + user("GOMODCACHE") + "/cache/download", user("GOPROXY")}
	r.env = append(os.Environ(), "GOWORK=off", "GONOPROXY=none", "GOMODCACHE="+cache,
		"GODEBUG=goindex=0", // an index of a version would outlive its files, which differ at the next run
		"GOPROXY="+strings.TrimSuffix(strings.Join(proxies, ","), ",direct"),
		"GONOSUMDB="+sash+","+user("GONOSUMDB"), "GOFLAGS="+user("GOFLAGS")+" -modcacherw")
}

// compareAPI holds the API of each module against that of the base: within a minor version nothing exported goes.
// gorelease fails in any case, since the version exists and no go.sum can have it, so only its report counts.
func (r *rehearsal) compareAPI() {
	minor := semver.MajorMinor(r.base) != semver.MajorMinor(r.version)
	check(inParallel(len(modules), func(i int) error {
		dir := filepath.Join(r.clone, modules[i])
		report, _ := r.goIn(dir, "run", gorelease, "-base="+r.base, "-version="+r.version)
		if !strings.Contains(report, "# summary") || strings.Contains(report, "## incompatible changes") && !minor {
			return fmt.Errorf("the API of %s against %s:\n%s", path.Join(sash, modules[i]), r.base, report)
		}
		return nil
	}))
	fmt.Println("ok: the API of", r.base)
}

// runCommand runs cmd/sash in a folder that is no module.
func (r *rehearsal) runCommand() {
	help, err := r.goIn(r.programs, "run", sash+"/cmd/sash@"+r.version, "help")
	check(err)
	if !strings.Contains(help, "sash replay") {
		log.Fatalf("sash help says %q", help)
	}
	fmt.Println("ok: go run " + sash + "/cmd/sash@" + r.version + " help")
}

// retract makes one version more, which retracts the one before. A program that has that one is told.
func (r *rehearsal) retract() {
	const why = "a rehearsed mistake"
	_, err := r.goIn(r.clone, "mod", "edit", "-retract="+r.version)
	check(err)
	file := filepath.Join(r.clone, "go.mod")
	text := strings.Replace(string(must(os.ReadFile(file))), "retract "+r.version, "retract "+r.version+" // "+why, 1)
	check(os.WriteFile(file, []byte(text), 0o600))
	r.commit()
	r.release(semver.MajorMinor(r.version)+".999", "")
	said, err := r.goIn(filepath.Join(r.programs, "readme"), "list", "-m", "-u", "-f", "{{.Retracted}}", sash)
	if err != nil || !strings.Contains(said, why) {
		log.Fatalf("%s is retracted, and go list -m -u says %q, %v", r.version, said, err)
	}
	fmt.Println("ok: a retraction of", r.version)
}

// goIn runs the go command as a program's author does, and returns what it prints.
func (r *rehearsal) goIn(dir string, args ...string) (string, error) {
	command := exec.Command("go", args...)
	command.Dir, command.Env = dir, r.env
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return string(out), err
}

// inParallel does n things, two at a time.
func inParallel(n int, do func(i int) error) error {
	failed := make([]error, n)
	slots := make(chan struct{}, 2)
	var running sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			failed[i] = do(i)
			<-slots
		})
	}
	running.Wait()
	return errors.Join(failed...)
}

func output(command *exec.Cmd) string {
	out, err := command.CombinedOutput()
	if err != nil {
		log.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
