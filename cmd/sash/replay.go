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

// replayCommand tells what limits would have done to the requests of access logs.
func replayCommand(args []string, sys system) error {
	var c replay.Config
	s := flag.NewFlagSet("sash replay", flag.ContinueOnError)
	s.SetOutput(io.Discard)
	key, trust, bits := s.String("key", "ip", ""), s.String("trust", "", ""), s.Int("ipv6", 64, "")
	html, names, asJSON := s.String("html", "", ""), s.String("names", "", ""), s.Bool("json", false, "")
	s.StringVar(&c.Format, "format", "", "")
	s.StringVar(&c.Fields, "fields", "", "")
	chosen := map[string][]func(*http.Request) bool{}
	for _, name := range []string{"only", "skip"} {
		s.Func(name, "", func(text string) error {
			match, err := choice(text)
			chosen[name] = append(chosen[name], match)
			return err
		})
	}
	s.Func("limit", "", func(text string) error {
		limit, err := core.ParseLimit(text)
		c.Limits = append(c.Limits, limit)
		return err
	})
	s.Func("window", "", func(text string) error {
		limit, err := core.ParseLimit("1/" + text)
		c.Windows = append(c.Windows, limit.Window)
		return err
	})
	s.Func("route", "", func(text string) error {
		at := max(0, strings.LastIndexByte(text, '='))
		limit, err := core.ParseLimit(strings.TrimPrefix(text[at:], "="))
		match, err2 := choice(text[:at])
		c.Routes = append(c.Routes, replay.Route{Name: text[:at], Match: match, Limits: []core.Limit{limit}})
		if n := len(c.Routes) - 2; n >= 0 && c.Routes[n].Name == text[:at] {
			c.Routes[n].Limits = append(c.Routes[n].Limits, limit)
			c.Routes = c.Routes[:n+1]
		}
		return cmp.Or(err, err2)
	})
	var files []string
	for rest := args; len(rest) > 0; { // flags may stand after files
		if err := s.Parse(rest); errors.Is(err, flag.ErrHelp) {
			return err
		} else if err != nil {
			return wrongUsage("%s", strings.Replace(err.Error(), "sash: ", "", 1))
		}
		if rest = s.Args(); len(rest) > 0 {
			files, rest = append(files, rest[0]), rest[1:]
		}
	}
	if only, skip := chosen["only"], chosen["skip"]; len(chosen) > 0 {
		c.Skip = func(r *http.Request) bool {
			of := func(match func(*http.Request) bool) bool { return match(r) }
			return only != nil && !slices.ContainsFunc(only, of) || slices.ContainsFunc(skip, of)
		}
	}
	if c.HashNames = *names == "hash"; *names != "" && !c.HashNames {
		return wrongUsage("-names %.40q: give hash, or leave the flag out", *names)
	}
	var err error
	if c.Key, c.Headers, err = keyOf(*key, *trust, *bits); err != nil {
		return err
	}
	debug.SetGCPercent(400) // until much of the memory is used
	debug.SetMemoryLimit(400_000_000)
	log, err := replay.New(c)
	if err != nil {
		return &usageError{err}
	}
	if err := readAll(log, files, sys); err != nil {
		return err
	}
	report, err := log.Report()
	if err != nil {
		return err
	}
	if *html != "" {
		var page bytes.Buffer
		if err := report.WriteHTML(&page); err != nil {
			return err
		}
		if err := os.WriteFile(*html, page.Bytes(), 0o600); err != nil {
			return fmt.Errorf("sash: -html: %w", err)
		}
	}
	if *asJSON {
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
				return nil, nil, wrongUsage("-trust %.60q: give networks of your proxies, such as 10.0.0.0/8,192.0.2.7", text)
			}
			proxies = append(proxies, proxy)
		}
		options, headers = append(options, keyfuncs.TrustProxies(proxies...)), []string{"X-Forwarded-For"}
	}
	return keyfuncs.IP(options...), headers, nil
}

// readAll reads files, or the standard input where none is named or one is -.
func readAll(log *replay.Log, names []string, sys system) error {
	if len(names) == 0 && terminal(sys.stdin) {
		return wrongUsage("no file is named: give access logs, or have one on the standard input")
	} else if len(names) == 0 {
		names = []string{"-"}
	}
	began := time.Now()
	p := progress{log: log, to: sys.stderr, began: began, told: began}
	var from []io.Reader
	for _, name := range names { // all are opened before one is read, so that a wrong name is told at once
		if name == "-" {
			from = append(from, sys.stdin)
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
	for i, name := range names {
		p.Reader = from[i]
		if err := log.Read(name, &p); err != nil {
			return err
		}
	}
	if p.told != began {
		fmt.Fprintf(p.to, "\r%70s\r", "")
	}
	return nil
}

// terminal reports whether a reader or writer is a terminal.
func terminal(of any) bool {
	file, _ := of.(*os.File)
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// progress is a reader that tells a terminal once a second how far it is.
type progress struct {
	io.Reader
	log         *replay.Log
	to          io.Writer
	began, told time.Time
	done, size  int64 // bytes; size is 0 where it is not known
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.done += int64(n)
	if time.Since(p.told) > time.Second && terminal(p.to) {
		p.told = time.Now()
		took := time.Since(p.began)
		left := time.Duration(float64(took) * max(0, float64(p.size)/float64(p.done)-1))
		fmt.Fprintf(p.to, "\r%d of %d MB, %.0f lines a second, %v left ",
			p.done/1e6, p.size/1e6, float64(p.log.Lines())/took.Seconds(), left.Round(time.Second))
	}
	return n, err
}
