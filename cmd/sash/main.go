// Command sash tells from access logs which limits fit, looks up and resets clients of limits
// that are counted in Redis, and checks whether a Redis is fit for counting. It needs no running
// server of the program that counts. Run sash -help for more, and see docs/choosing.md and
// docs/operations.md.
//
//	go install github.com/sashlimit/sash/cmd/sash@latest
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/redis/go-redis/v9"
)

// Exit codes.
const (
	exitOK = iota
	exitFailure
	exitUsage
)

func main() {
	redis.SetLogger(silence{})
	if len(os.Args) > 1 && os.Args[1] != "replay" {
		go watchMemory()
	}
	os.Exit(run(context.Background(), os.Args[1:], system{os.Stdin, os.Stdout, os.Stderr, os.Getenv}))
}

// silence keeps go-redis from writing of failed dials: the command says what has failed.
type silence struct{}

// Printf implements the logger of go-redis.
func (silence) Printf(context.Context, string, ...any) {}

// system holds the parts of the process that the command uses.
type system struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
}

// run runs the command with the given arguments and returns its exit code.
func run(ctx context.Context, args []string, sys system) int {
	err := command(ctx, args, sys)
	if errors.Is(err, flag.ErrHelp) {
		err = write(sys.stdout, help)
	}
	if err == nil {
		return exitOK
	}
	_ = write(sys.stderr, withoutPassword(err.Error())+"\n")
	if _, wrong := errors.AsType[*usageError](err); wrong {
		fmt.Fprintln(sys.stderr, "Run sash -help to see what is allowed.")
		return exitUsage
	}
	return exitFailure
}

// command runs the subcommand that the arguments name. Its error is flag.ErrHelp if the help is
// asked for.
func command(ctx context.Context, args []string, sys system) error {
	if len(args) == 0 {
		return wrongUsage("give a command: replay, usage, reset or check")
	}
	switch name := strings.TrimLeft(args[0], "-"); name {
	case "usage", "reset":
		return clientCommand(ctx, args[1:], sys, name == "reset")
	case "replay":
		return replayCommand(args[1:], sys)
	case "check":
		return check(ctx, args[1:], sys)
	case "help", "h":
		return flag.ErrHelp
	default:
		return wrongUsage("%.20q is not a command: give replay, usage, reset or check", name)
	}
}

// usageError is a mistake in how the command was called.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// wrongUsage returns a usageError.
func wrongUsage(format string, args ...any) error {
	return &usageError{fmt.Errorf("sash: "+format, args...)}
}

// password is the part of a URL that may hold one.
var password = regexp.MustCompile(`://[^\s"]*@`)

// withoutPassword returns the text without the password of a URL that stands in it.
func withoutPassword(text string) string {
	return password.ReplaceAllStringFunc(text, func(found string) string {
		if found == "://[user:password@" { // how an error says what is allowed
			return found
		}
		return "://...@"
	})
}

// write writes text for a terminal: what a server or a client chose may have control
// characters. Its error says that the result could not be written.
func write(w io.Writer, text string) error {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit) // as JSON has it
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("sash: the result could not be written: %w", err)
	}
	return nil
}
