package bench

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// generator sends requests of all clients in turn to a URL for some seconds, over a
// number of connections.
type generator func(url string, connections int, seconds time.Duration) (volley, error)

// volley holds the counts and times of a generator.
type volley struct {
	Requests int64 // with a complete response
	Micros   int64 // how long it took

	Status                        int64 // responses with a status of 400 or more
	Connect, Read, Write, Timeout int64 // errors of sockets

	P50, P99 float64 // latency in microseconds

	CPU time.Duration // of the generator's process
}

// perSecond returns the requests a second.
func (v volley) perSecond() float64 { return float64(v.Requests) / (float64(v.Micros) / 1e6) }

// check returns an error unless there were requests, and all were answered well.
func (v volley) check() error {
	if v.Status+v.Connect+v.Read+v.Write+v.Timeout > 0 || v.Requests == 0 || v.Micros <= 0 {
		return fmt.Errorf("of %d requests %d were refused or failed, and %d sockets failed to connect, "+
			"%d to read, %d to write, and %d timed out: want requests, and no failure",
			v.Requests, v.Status, v.Connect, v.Read, v.Write, v.Timeout)
	}
	return nil
}

//go:embed wrk.lua
var wrkScript string

// runWrk returns the generator that runs wrk with one thread. script is the path of
// wrkScript.
func runWrk(script string) generator {
	return func(url string, connections int, seconds time.Duration) (volley, error) {
		var out, problems bytes.Buffer
		cmd := exec.Command("wrk", "-t1", "-c"+strconv.Itoa(connections), "-d"+strconv.Itoa(int(seconds.Seconds()))+"s",
			"-s", script, url, "--", strconv.Itoa(webClients))
		cmd.Stdout, cmd.Stderr = &out, &problems
		if err := cmd.Run(); err != nil {
			return volley{}, fmt.Errorf("wrk: %w: %s", err, problems.String())
		}
		v, err := parseWrk(out.String())
		if err != nil {
			return volley{}, fmt.Errorf("wrk: %w: %s%s", err, out.String(), problems.String())
		}
		v.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		return v, nil
	}
}

// parseWrk reads the line that wrkScript writes.
func parseWrk(out string) (v volley, err error) {
	for line := range strings.Lines(out) {
		if text, ok := strings.CutPrefix(line, "result "); ok {
			return v, json.Unmarshal([]byte(text), &v)
		}
	}
	return v, errors.New("it wrote no result")
}

// writeWrkScript writes wrkScript into a directory and returns its path.
func writeWrkScript(dir string) (path string, err error) {
	path = filepath.Join(dir, "wrk.lua")
	return path, os.WriteFile(path, []byte(wrkScript), 0o600)
}
