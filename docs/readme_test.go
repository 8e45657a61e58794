package docs_test

import (
	"go/format"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sashlimit/sash/internal/redistest"
)

// readmeAddress is the address that the program of the README listens on, as it stands there.
const readmeAddress = `"127.0.0.1:8080"`

// TestReadmeProgram compiles the lines that the README begins with, with the imports that stand above them. It takes
// the program out of the README, builds it in a module of its own, starts it on a free port, and holds its answers
// against what the README says of them.
func TestReadmeProgram(t *testing.T) {
	text := readme(t)
	found := blocks.FindAllStringSubmatch(text, -1)
	if len(found) != 2 {
		t.Fatalf("the README has %d blocks of Go, want the lines and the program", len(found))
	}
	lines := t.TempDir()
	writeModule(t, lines, "../examples")
	imported, first, _ := strings.Cut(found[0][1], "\n)\n")
	code := source("README.md", first)
	for _, path := range regexp.MustCompile(`(?:\w+ )?"[^"]+"`).FindAllString(imported, -1) {
		if !strings.Contains(code, " "+path) && !strings.Contains(code, "\t"+path) {
			t.Errorf("the README imports %s, which its lines do not use", path)
		}
	}
	write(t, filepath.Join(lines, "lines.go"), code)
	runGo(t, lines, "vet", ".")
	server := startReadme(t, found[1][1])
	admission, refusal := readmeAnswers(t, text)

	server.want(t, "GET /", http.StatusOK, admission)
	for left := 4; left >= 0; left-- {
		server.want(t, "POST /login", http.StatusUnauthorized, http.Header{
			"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Remaining": {strconv.Itoa(left)},
		})
	}
	login := server.want(t, "POST /login", http.StatusTooManyRequests, http.Header{"X-Ratelimit-Limit": {"5"}})
	mustComeBack(t, login, 15*60)
	for left := 100 - 8; left >= 0; left-- { // 7 of the 100 are used
		server.want(t, "GET /", http.StatusOK, http.Header{"X-Ratelimit-Remaining": {strconv.Itoa(left)}})
	}
	// How long the requests took is not known, so the times are compared by their bound alone.
	refusal.Del("X-Ratelimit-Reset")
	refusal.Del("Retry-After")
	mustComeBack(t, server.want(t, "GET /", http.StatusTooManyRequests, refusal), 60)
	for range 3 {
		if fields := server.want(t, "GET /health", http.StatusOK, nil); fields.Get("X-Ratelimit-Limit") != "" {
			t.Errorf("GET /health: %v, want no limit", fields)
		}
	}
	server.want(t, "POST /health", http.StatusTooManyRequests, nil) // SkipPaths leaves GET and HEAD alone
}

// mustComeBack checks that a refusal says when to come back, within so many seconds.
func mustComeBack(t *testing.T, fields http.Header, atMost int) {
	t.Helper()
	seconds, err := strconv.Atoi(fields.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > atMost || fields.Get("X-Ratelimit-Reset") != fields.Get("Retry-After") {
		t.Errorf("a refusal has %v, want a Retry-After from 1 to %d, and a reset alike", fields, atMost)
	}
}

// readme returns the text of the README.
func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// readmeAnswers returns the header fields of the two answers that the README shows side by side.
func readmeAnswers(t *testing.T, text string) (first, refusal http.Header) {
	t.Helper()
	_, rest, _ := strings.Cut(text, "```\nHTTP/1.1 200 OK")
	status, rest, _ := strings.Cut(rest, "\n")
	if strings.TrimSpace(status) != "HTTP/1.1 429 Too Many Requests" {
		t.Fatalf("the README shows 200 beside %q, want 429", status)
	}
	right := len("HTTP/1.1 200 OK") + strings.Index(status, "HTTP")
	answers, _, _ := strings.Cut(rest, "```")
	first, refusal = http.Header{}, http.Header{}
	for line := range strings.Lines(answers) {
		line = strings.TrimSuffix(line, "\n")
		for fields, part := range map[*http.Header]string{&first: line[:right], &refusal: line[right:]} {
			if name, value, ok := strings.Cut(strings.TrimSpace(part), ": "); ok {
				fields.Add(name, value)
			}
		}
	}
	if len(first) != 3 || len(refusal) != 6 {
		t.Fatalf("the README shows %d and %d fields, want 3 and 6: %v, %v", len(first), len(refusal), first, refusal)
	}
	return first, refusal
}

// readmeServer is the program of the README, under way at this URL.
type readmeServer string

// startReadme builds the program and starts it on a free port until the test ends.
func startReadme(t *testing.T, code string) readmeServer {
	t.Helper()
	if formatted, err := format.Source([]byte(code)); err != nil || string(formatted) != code {
		t.Errorf("the program is not as gofmt has it (%v)", err)
	}
	if n := strings.Count(code, readmeAddress); n != 1 {
		t.Fatalf("the program has the address %s %d times, want once", readmeAddress, n)
	}
	port, err := redistest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	dir := t.TempDir()
	writeModule(t, dir, "..")
	write(t, filepath.Join(dir, "main.go"), strings.Replace(code, readmeAddress, strconv.Quote(address), 1))
	runGo(t, dir, "vet", ".")
	runGo(t, dir, "build", "-o", "program", ".")
	program := exec.Command(filepath.Join(dir, "program"))
	program.Stderr = os.Stderr
	if err := redistest.Launch(program); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	server := readmeServer("http://" + address)
	redistest.WaitFor(t, "the program to listen", func() error {
		response, err := http.Get(string(server) + "/health") // is not counted
		if err == nil {
			response.Body.Close()
		}
		return err
	})
	return server
}

// want sends a request, "GET /" for example, and checks the status and the fields of the
// answer. It returns all of its fields.
func (s readmeServer) want(t *testing.T, request string, status int, fields http.Header) http.Header {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	r, err := http.NewRequest(method, string(s)+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != status {
		t.Errorf("%s: %s, want %d", request, response.Status, status)
	}
	for name := range fields {
		if got, want := response.Header.Get(name), fields.Get(name); got != want {
			t.Errorf("%s: %s is %q, want %q", request, name, got, want)
		}
	}
	return response.Header
}
