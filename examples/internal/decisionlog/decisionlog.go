// Package decisionlog writes every decision of a limiter to a file, and reads
// the files of several processes back to check them together.
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
	Error   string `json:"error,omitempty"` // the store was not asked
}

// Time is At as a time.
func (l Line) Time() time.Time { return time.UnixMicro(l.At) }

// File is a [core.Observer] that writes. It is safe for concurrent use.
type File struct {
	mu     sync.Mutex
	file   *os.File
	buffer *bufio.Writer
}

// Create makes an empty file at path.
func Create(path string) (*File, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &File{file: file, buffer: bufio.NewWriterSize(file, 1<<20)}, nil
}

// Observe writes one decision.
func (f *File) Observe(_ context.Context, e core.Event) {
	line := Line{At: e.Decision.At.UnixMicro(), Rule: e.Rule, Key: e.Key, Cost: e.Cost, Allowed: e.Decision.Allowed}
	if e.Decision.Err != nil {
		line.Error = e.Decision.Err.Error()
	}
	text, err := json.Marshal(line)
	if err != nil {
		return // strings and numbers cannot fail
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = f.buffer.Write(append(text, '\n')) // Close reports a failure
}

// Close writes what is buffered and closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.buffer.Flush(), f.file.Close())
}

// Read calls fn for every line of a file.
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
