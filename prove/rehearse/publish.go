package main

import (
	"archive/zip"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	modzip "golang.org/x/mod/zip"
)

const (
	maxZip  = 2 << 20   // bytes
	maxFile = 100 << 10 // bytes
)

// useful are the files that a zip may have. Tests are among them, since go test of a module that is required runs
// them, and docs with its pictures: to leave it out, it would have to be a module.
var useful = regexp.MustCompile(`\.(go|mod|sum|md|lua|tmpl|html|txt)$|/testdata/|^docs/images/.*(png|svg)$|` +
	`^\.(ci|github)/|^(LICENSE|Makefile|\.gitignore|go\.work|go\.work\.sum)$`)

// writeVersions makes every go.mod in dir require that version of sash. The replace lines stay.
func writeVersions(dir, version string) {
	for name := range strings.FieldsSeq(output(exec.Command("git", "-C", dir, "ls-files", "go.mod", "*/go.mod"))) {
		name = filepath.Join(dir, name)
		file := must(modfile.Parse(name, must(os.ReadFile(name)), nil))
		for _, require := range slices.Clone(file.Require) {
			if isSash(require.Mod.Path) {
				check(file.AddRequire(require.Mod.Path, version))
			}
		}
		check(os.WriteFile(name, must(file.Format()), 0o600))
	}
}

func isSash(path string) bool { return path == sash || strings.HasPrefix(path, sash+"/") }

// publish puts all modules in the proxy. The clone stays at that version.
func (r *rehearsal) publish(version string) {
	tagged := output(exec.Command("git", "-C", r.clone, "tag", "--list", version))
	revision := tagged
	if tagged == "" {
		revision = output(exec.Command("git", "-C", r.source, "rev-parse", "HEAD"))
	}
	output(exec.Command("git", "-C", r.clone, "checkout", "--quiet", "--detach", revision))
	if tagged == "" {
		writeVersions(r.clone, version)
		r.commit()
	}
	for _, folder := range modules {
		r.release(version, folder)
	}
}

func (r *rehearsal) commit() {
	output(exec.Command("git", "-C", r.clone, "-c", "user.name=rehearse", "-c", "user.email=rehearse@localhost",
		"commit", "--quiet", "--all", "--allow-empty", "--message=rehearse"))
}

// release puts a module in the proxy, as the clone has it, and checks what it requires and what is in its zip.
func (r *rehearsal) release(version, folder string) {
	m := module.Version{Path: path.Join(sash, folder), Version: version}
	text := must(os.ReadFile(filepath.Join(r.clone, folder, "go.mod")))
	file := must(modfile.Parse(m.String(), text, nil))
	for _, retract := range file.Retract {
		if semver.Compare(retract.Low, version) <= 0 && semver.Compare(version, retract.High) <= 0 {
			log.Fatalf("%s retracts itself", m)
		}
	}
	for _, require := range file.Require {
		if isSash(require.Mod.Path) && require.Mod.Version != version {
			log.Fatalf("%s requires %s: make versions VERSION=%s before the tag", m, require.Mod, version)
		}
	}
	dir := filepath.Join(r.proxy, m.Path, "@v")
	check(os.MkdirAll(dir, 0o700))
	start := filepath.Join(dir, version)
	check(os.WriteFile(start+".mod", text, 0o600))
	info := fmt.Appendf(nil, `{"Version": %q, "Time": "2026-01-01T00:00:00Z"}`, version)
	check(os.WriteFile(start+".info", info, 0o600))
	list := must(os.OpenFile(filepath.Join(dir, "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))
	must(fmt.Fprintln(list, version))
	check(list.Close())
	archive := must(os.Create(start + ".zip"))
	check(modzip.CreateFromVCS(archive, m, r.clone, "HEAD", folder))
	check(archive.Close())
	checkZip(m, start+".zip")
}

// checkZip refuses a zip that is too large, has a file of no use, or no license that pkg.go.dev finds.
func checkZip(m module.Version, name string) {
	archive := must(zip.OpenReader(name))
	defer archive.Close()
	var license []byte
	for _, file := range archive.File {
		inside := strings.TrimPrefix(file.Name, m.String()+"/")
		if !useful.MatchString(inside) || file.UncompressedSize64 > maxFile {
			log.Fatalf("the zip of %s has %s of %d bytes, which no user needs", m, inside, file.UncompressedSize64)
		}
		if inside == "LICENSE" {
			license = must(io.ReadAll(must(file.Open())))
		}
	}
	if found := licensecheck.Scan(license); found.Percent < 75 || found.Match[0].ID != "MIT" { // pkg.go.dev wants 75
		log.Fatalf("the LICENSE of %s is not known as MIT: %+v", m, found)
	}
	size := must(os.Stat(name)).Size()
	if size > maxZip {
		log.Fatalf("the zip of %s has %d bytes, more than %d", m, size, maxZip)
	}
	fmt.Printf("ok: %s, %d files, %d KB\n", m, len(archive.File), size>>10)
}
