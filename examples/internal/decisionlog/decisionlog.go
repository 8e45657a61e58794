// Package decisionlog writes every decision of a limiter to a file, and reads such
// files back, so that the decisions of several processes can be checked together.
package decisionlog

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
)

// Line is one decision.
type Line struct {
	At      int64  `json:"at"` // microseconds since the epoch, by the store's clock
	Rule    string `json:"rule,omitempty"`
	Key     string `json:"key"`
	Cost    int64  `json:"cost"`
	Allowed bool   `json:"allowed"`
	Error   string `json:"error,omitempty"` // why the store did not decide
}

// Time returns At as a time.
func (l Line) Time() time.Time { return time.UnixMicro(l.At) }

// File is a [core.Observer] that writes decisions to a file. It is safe for
// concurrent use.
type File struct {
	mu     sync.Mutex // guards the fields below
	file   *os.File
	buffer *bufio.Writer
}

// Create returns an empty file at path. A file that is there already is emptied.
func Create(path string) (*File, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &File{file: file, buffer: bufio.NewWriterSize(file, 1<<20)}, nil
}

// Observe writes one decision. It ignores a Peek, which counts nothing.
func (f *File) Observe(_ context.Context, e core.Event) {
	if e.Peek {
		return
	}
	line := Line{At: e.Decision.At.UnixMicro(), Rule: e.Rule, Key: e.Key, Cost: e.Cost, Allowed: e.Decision.Allowed}
	if e.Decision.Err != nil {
		line.Error = e.Decision.Err.Error()
	}
	text, err := json.Marshal(line)
	if err != nil {
		return // cannot happen: a Line holds only strings, numbers and a bool
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = f.buffer.Write(append(text, '\n')) // Close reports a failure
}

// Close writes the buffered lines and closes the file. Its error may come from an
// earlier write.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.buffer.Flush(), f.file.Close())
}

// Read calls fn for every line of the file at path. It ends at the first line that
// it cannot read, with an error.
func Read(path string, fn func(Line)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	decoder := json.NewDecoder(bufio.NewReader(file))
	for {
		var line Line
		switch err := decoder.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		fn(line)
	}
}
