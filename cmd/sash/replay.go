package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/extra/replay"
	"github.com/sashlimit/sash/keyfuncs"
	"github.com/sashlimit/sash/nethttp"
)

// choice returns what has the request skipped that SkipPaths would skip.
func choice(text string) (func(*http.Request) bool, error) {
	limiter := core.Must(core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{core.PerDay(1)}}))
	if _, err := nethttp.New(limiter, keyfuncs.RemoteIP, nethttp.SkipPaths(text)); err != nil {
		return nil, err
	}
	method, path, found := strings.Cut(text, " ")
	if !found {
		method, path = http.MethodGet, text
	}
	return func(r *http.Request) bool {
		same := r.Method == method || method == http.MethodGet && r.Method == http.MethodHead
		return same && r.URL.Path == path && r.URL.RawPath == ""
	}, nil
}

// replayFlags holds the flags of replay.
type replayFlags struct {
	*flag.FlagSet
	config                  replay.Config
	key, trust, html, names string
	bits                    int
	json                    bool
	only, skip              []func(*http.Request) bool
}

func newReplayFlags() *replayFlags {
	f := &replayFlags{FlagSet: flag.NewFlagSet("sash replay", flag.ContinueOnError)}
	f.SetOutput(io.Discard)
	f.StringVar(&f.key, "key", "ip", "")
	f.StringVar(&f.trust, "trust", "", "")
	f.IntVar(&f.bits, "ipv6", 64, "")
	f.StringVar(&f.html, "html", "", "")
	f.StringVar(&f.names, "names", "", "")
	f.BoolVar(&f.json, "json", false, "")
	f.StringVar(&f.config.Format, "format", "", "")
	f.StringVar(&f.config.Fields, "fields", "", "")
	for name, chosen := range map[string]*[]func(*http.Request) bool{"only": &f.only, "skip": &f.skip} {
		f.Func(name, "", func(text string) error {
			match, err := choice(text)
			*chosen = append(*chosen, match)
			return err
		})
	}
	f.Func("limit", "", func(text string) error {
		limit, err := core.ParseLimit(text)
		f.config.Limits = append(f.config.Limits, limit)
		return err
	})
	f.Func("window", "", func(text string) error {
		limit, err := core.ParseLimit("1/" + text)
		f.config.Windows = append(f.config.Windows, limit.Window)
		return err
	})
	f.Func("route", "", f.addRoute)
	return f
}

// addRoute adds the limit of a text such as "POST /login=5/15m".
func (f *replayFlags) addRoute(text string) error {
	at := max(0, strings.LastIndexByte(text, '='))
	limit, err := core.ParseLimit(strings.TrimPrefix(text[at:], "="))
	match, err2 := choice(text[:at])
	routes := f.config.Routes
	if last := len(routes) - 1; last >= 0 && routes[last].Name == text[:at] {
		routes[last].Limits = append(routes[last].Limits, limit)
	} else {
		f.config.Routes = append(routes, replay.Route{Name: text[:at], Match: match, Limits: []core.Limit{limit}})
	}
	return cmp.Or(err, err2)
}

// parse parses the arguments, and returns the names of the files.
func (f *replayFlags) parse(args []string) (files []string, err error) {
	for rest := args; len(rest) > 0; { // flags may stand after files
		if err := f.Parse(rest); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, wrongUsage("%s", strings.Replace(err.Error(), "sash: ", "", 1))
		}
		if rest = f.Args(); len(rest) > 0 {
			files, rest = append(files, rest[0]), rest[1:]
		}
	}
	if len(f.only)+len(f.skip) > 0 {
		f.config.Skip = func(r *http.Request) bool {
			of := func(match func(*http.Request) bool) bool { return match(r) }
			return f.only != nil && !slices.ContainsFunc(f.only, of) || slices.ContainsFunc(f.skip, of)
		}
	}
	if f.config.HashNames = f.names == "hash"; f.names != "" && !f.config.HashNames {
		return nil, wrongUsage("-names %.40q: give hash, or leave the flag out", f.names)
	}
	f.config.Key, f.config.Headers, err = keyOf(f.key, f.trust, f.bits)
	return files, err
}

// replayCommand tells what limits would have done to the requests of access logs.
func replayCommand(args []string, sys system) error {
	f := newReplayFlags()
	files, err := f.parse(args)
	if err != nil {
		return err
	}
	p := &progress{to: sys.stderr, start: time.Now()}
	f.config.Progress = func(tried, of int) { p.print("tried %d of %d limits", tried, of) }
	debug.SetGCPercent(400) // until much of the memory is used
	debug.SetMemoryLimit(400_000_000)
	log, err := replay.New(f.config)
	if err != nil {
		return &usageError{err}
	}
	if err := readAll(log, files, sys, p); err != nil {
		return err
	}
	report, err := log.Report()
	if err != nil {
		return err
	}
	if f.html != "" {
		var page bytes.Buffer
		if err := report.WriteHTML(&page); err != nil {
			return err
		}
		if err := os.WriteFile(f.html, page.Bytes(), 0o600); err != nil {
			return fmt.Errorf("sash: -html: %w", err)
		}
	}
	p.clear()
	if f.json {
		return writeJSON(sys, report)
	}
	var text strings.Builder
	_ = report.WriteText(&text) // to a strings.Builder
	return write(sys.stdout, text.String())
}

// keyOf returns the key function of the flags, and the headers that it reads.
func keyOf(key, trust string, bits int) (of keyfuncs.Func, headers []string, err error) {
	defer func() {
		if text, wrong := recover().(string); wrong { // of TrustProxies and IPv6Prefix
			err = wrongUsage("%s", strings.TrimPrefix(text, "sash: "))
		}
	}()
	kind, name, _ := strings.Cut(key, ":")
	switch {
	case key != "ip" && trust != "":
		return nil, nil, wrongUsage("-trust belongs to -key ip")
	case key == "user":
		return keyfuncs.UserID(replay.User), nil, nil
	case kind == "header" && keyfuncs.HeaderKey(name, "x") != "":
		return keyfuncs.Header(name), []string{name}, nil
	case key != "ip":
		return nil, nil, wrongUsage("-key %.60q: give ip, user or header:NAME", key)
	}
	options := []keyfuncs.IPOption{keyfuncs.IPv6Prefix(bits)}
	if trust != "" {
		var proxies []netip.Prefix
		for text := range strings.SplitSeq(strings.ReplaceAll(trust, " ", ""), ",") {
			if addr, err := netip.ParseAddr(text); err == nil {
				text = fmt.Sprint(addr, "/", addr.BitLen())
			}
			proxy, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, nil, wrongUsage("-trust %.60q: give networks of your proxies, such as 10.0.0.0/8,192.0.2.7",
					text)
			}
			proxies = append(proxies, proxy)
		}
		options, headers = append(options, keyfuncs.TrustProxies(proxies...)), []string{"X-Forwarded-For"}
	}
	return keyfuncs.IP(options...), headers, nil
}

// readAll reads files, or the standard input where none is named or one is -.
func readAll(log *replay.Log, names []string, sys system, p *progress) error {
	if len(names) == 0 && terminal(sys.stdin) {
		return wrongUsage("no file is named: give access logs, or have one on the standard input")
	} else if len(names) == 0 {
		names = []string{"-"}
	}
	var from []io.Reader
	for _, name := range names { // all are opened before one is read, so that a wrong name is told at once
		if name == "-" {
			from, p.size = append(from, sys.stdin), -1<<62
			continue
		}
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("sash: %w", err)
		}
		defer file.Close()
		if info, err := file.Stat(); err == nil {
			p.size += info.Size()
		}
		from = append(from, file)
	}
	p.log = log
	defer p.clear()
	for i, name := range names {
		p.Reader = from[i]
		if err := log.Read(name, p); err != nil {
			return err
		}
	}
	return nil
}

// terminal reports whether a reader or writer is a terminal.
func terminal(of any) bool {
	file, _ := of.(*os.File)
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progress tells a terminal once a second how far the work is. It is the reader of the logs.
type progress struct {
	io.Reader
	log            *replay.Log
	to             io.Writer
	start, printed time.Time // printed is zero until a line is there
	done, size     int64     // bytes; size is negative where it is not known
}

func (p *progress) print(format string, args ...any) {
	if time.Since(cmp.Or(p.printed, p.start)) > time.Second && terminal(p.to) {
		p.printed = time.Now()
		fmt.Fprintf(p.to, "\r%-70s", fmt.Sprintf(format, args...))
	}
}

// clear removes the line.
func (p *progress) clear() {
	if !p.printed.IsZero() {
		fmt.Fprintf(p.to, "\r%70s\r", "")
	}
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.done += int64(n)
	elapsed := time.Since(p.start)
	speed := float64(p.log.Lines()) / elapsed.Seconds()
	if p.size <= 0 {
		p.print("%d MB, %.0f lines a second", p.done/1e6, speed)
	} else {
		left := time.Duration(float64(elapsed) * max(0, float64(p.size)/float64(max(1, p.done))-1))
		p.print("%d of %d MB, %.0f lines a second, %v left", p.done/1e6, p.size/1e6, speed, left.Round(time.Second))
	}
	return n, err
}
