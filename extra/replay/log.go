package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/keyfuncs"
)

// Config says how a log is read, and which limits are tried. The zero Config names clients by the address in the log,
// and tries no limit.
type Config struct {
	Key     keyfuncs.Func            // names the client; nil: keyfuncs.RemoteIP
	Headers []string                 // the request headers that Key reads: a log without one of them is an error
	Skip    func(*http.Request) bool // leaves out the requests for which it returns true; nil: none
	Limits  []core.Limit             // what is tried, together as in a rule; may be empty
	Routes  []Route                  // limits of routes, asked where Limits have admitted the request
	Windows []time.Duration          // in which clients are measured; nil: 1 s, 10 s, 1 min, 1 h, 24 h

	// Format is the format of nginx's log_format, such as `$remote_addr [$time_local] "$request"`. Fields says which
	// field of a line in JSON has what: "time=ts,ip=request.remote_ip,method=request.method,path=request.uri". The
	// others are user, host, request (the request line), duration (of the request, at whose end the line was written)
	// and header:NAME. If both are empty, common, combined, Caddy's and Traefik's are told by the first lines of a file.
	Format, Fields string

	MaxBytes  int64 // bounds the memory of requests and clients; 0: 400 MB
	HashNames bool  // names clients in the report by hashes, which differ in each run, and quotes no line
}

// Route holds the limits of the requests that Match returns true for. Name is what the report calls it. A request is
// of the first route that matches.
type Route struct {
	Name   string
	Match  func(*http.Request) bool
	Limits []core.Limit
}

const (
	defaultBytes = 400_000_000
	requestBytes = 20  // of a request: 12 while reading, 8 when grouped
	clientBytes  = 100 // of a client, besides its name
	longestLine  = 256 << 10
)

// Log holds the requests of access logs. [New] makes one. It is not safe for concurrent use.
type Log struct {
	config     Config
	formats    []*format // of which a file has one
	salt, user string    // of the hashes of names; of the request
	request    *http.Request
	urls       map[string]*url.URL // of paths, nil where there is none
	fields     values

	timeText string // the time that was read last
	at       int64
	fraction bool // whether a time was not a whole second

	ids     map[string]uint32 // of clients, by their keys
	names   []string          // by id
	times   []uint64          // of requests: microseconds << 8 | number of the route
	clients []uint32          // of requests, by id
	bytes   int64             // that requests and clients take
	grouped requests

	lines           int
	left            [len(lefts)]int // lines that are no requests of the report
	examples, notes []string        // of unreadable lines; of the report
	whyUnnamed      error
}

// Why a line is no request of the report.
const unreadable, noRequest, skipped, unnamed, beyond = 0, 1, 2, 3, 4

var lefts = [...]string{"could not be read", "hold no HTTP request, such as those of a port scan",
	"were left out by the choice of requests", "name no client", "came when the memory was full"}

type userKey struct{}

// User returns the user that the log has for a request, for [keyfuncs.UserID].
func User(ctx context.Context) (string, bool) {
	user, ok := ctx.Value(userKey{}).(*string)
	return *cmp.Or(user, new(string)), ok && *user != ""
}

// New returns an empty Log. It returns an error if the Config has a limit that core.New refuses, or a format that lacks
// what Config asks for.
func New(c Config) (*Log, error) {
	if c.Key == nil {
		c.Key = keyfuncs.RemoteIP
	}
	if c.Windows == nil {
		c.Windows = []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour, 24 * time.Hour}
	}
	if c.MaxBytes = cmp.Or(c.MaxBytes, defaultBytes); len(c.Routes) > 255 {
		return nil, fmt.Errorf("sash: %d routes: at most 255 are allowed", len(c.Routes))
	}
	rules := c.rules()
	for _, w := range c.Windows {
		rules = append(rules, Route{Limits: []core.Limit{core.Per(1, w)}})
	}
	if _, _, err := limiters(rules, new(time.Time)); err != nil {
		return nil, err
	}
	formats, err := formatsOf(c)
	l := &Log{config: c, formats: formats, salt: rand.Text(), urls: map[string]*url.URL{}, ids: map[string]uint32{}}
	ctx := context.WithValue(context.Background(), userKey{}, &l.user)
	l.request = (&http.Request{Header: http.Header{}}).WithContext(ctx)
	return l, err
}

// rules returns a route without a name for Limits, and after it the routes.
func (c *Config) rules() []Route { return append([]Route{{Limits: c.Limits}}, c.Routes...) }

// Read reads a log, which may be compressed by gzip. Files may be read in any order: Report sorts all requests by time.
// What cannot be read is counted; if that is more than one line in ten, Read returns an error that says what to do.
func (l *Log) Read(name string, r io.Reader) error {
	if l.grouped != nil {
		return errors.New("sash: Read after Report: make a new Log")
	}
	in := bufio.NewReaderSize(r, longestLine)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		plain, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("sash: %.200q: %w", name, err)
		}
		in = bufio.NewReaderSize(plain, longestLine)
	}
	var f *format // told by the first line that is in one
	if len(l.formats) == 1 {
		f = l.formats[0]
	}
	lines, bad, err := l.lines, l.left[unreadable], error(nil)
	for number := 1; err == nil; number++ {
		var line []byte
		var wrong error
		line, err = in.ReadSlice('\n')
		if line = bytes.TrimRight(line, "\r\n"); errors.Is(err, bufio.ErrBufferFull) {
			wrong = fmt.Errorf("it has more than %d bytes", longestLine)
		} else if len(line) > 0 && (err == nil || err == io.EOF) {
			if f == nil {
				if f = l.recognise(line); f != nil && f.check(l.config) != nil {
					return fmt.Errorf("%w (%.200q)", f.check(l.config), name)
				}
			}
			wrong = l.line(f, line)
		}
		if wrong != nil {
			l.bad(name, number, line, wrong)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if err != nil && err != io.EOF {
			l.notes = append(l.notes, fmt.Sprintf("%.200q ends early, in line %s: %v.", name, count(number), err))
		}
	}
	if l.lines == lines && err != io.EOF {
		return fmt.Errorf("sash: %.200q: %w", name, err)
	} else if l.lines == lines {
		l.notes = append(l.notes, fmt.Sprintf("%.200q is empty.", name))
		return nil
	} else if f == nil {
		return fmt.Errorf("sash: %.200q: no line is in a format that is known%s", name, l.help())
	}
	l.notes = append(l.notes, fmt.Sprintf("Read %.200q as %s.", name, f.name))
	if lines, bad = l.lines-lines, l.left[unreadable]-bad; bad*10 > lines {
		return fmt.Errorf("sash: %.200q: %s of %s lines cannot be read as %s%s",
			name, count(bad), count(lines), f.name, l.help())
	}
	return nil
}

// Lines returns how many lines have been read.
func (l *Log) Lines() int { return l.lines }

// help says how a format is given, after the lines that could not be read.
func (l *Log) help() string {
	return ":\n" + strings.Join(append(l.examples, ""), "\n") + "Say how a line is written, in the words of nginx's " +
		"log_format:\n  -format '" + combined + "'\nor, where it is JSON, by the names of its fields:\n  -fields '" +
		"time=ts,ip=request.remote_ip,method=request.method,path=request.uri'"
}

// bad counts a line that cannot be read.
func (l *Log) bad(name string, number int, line []byte, err error) {
	l.lines++
	if l.left[unreadable]++; l.left[unreadable] > 3 {
		return
	}
	text := fmt.Sprintf("%.200q, line %d", name, number)
	if !l.config.HashNames {
		text += fmt.Sprintf(": %v: %.100q", err, line[:min(len(line), 1000)])
	}
	l.examples = append(l.examples, text)
}

// line reads a line, and keeps its request.
func (l *Log) line(f *format, line []byte) error {
	l.fields = values{}
	if f == nil {
		return errors.New("it is in no format that is known")
	} else if err := f.read(line, &l.fields); err != nil {
		return err
	}
	if text := l.fields[fieldTime]; string(text) != l.timeText || l.at == 0 {
		at, err := readTime(string(text))
		if err != nil {
			return err
		}
		l.timeText, l.at, l.fraction = string(text), at, l.fraction || at%1_000_000 != 0
	}
	l.lines++
	r := l.request
	if !l.build(f) {
		l.left[noRequest]++
		return nil
	} else if l.config.Skip != nil && l.config.Skip(r) {
		l.left[skipped]++
		return nil
	}
	key, err := l.config.Key(r)
	if err != nil || key == "" {
		l.left[unnamed]++
		l.whyUnnamed = err
		return nil
	}
	route := 1 + slices.IndexFunc(l.config.Routes, func(route Route) bool { return route.Match(r) })
	at := l.at
	if took, _ := strconv.ParseFloat(string(l.fields[fieldDuration]), 64); took > 0 && took < 86400 {
		at = max(0, at-int64(took*1e6))
	}
	l.add(key, uint64(at)<<8|uint64(route))
	return nil
}

// build makes the request of the fields. It reports whether they hold one.
func (l *Log) build(f *format) bool {
	r, v := l.request, &l.fields
	if f.has[fieldRequest] && v[fieldPath] == nil {
		v[fieldMethod], v[fieldPath], _ = bytes.Cut(v[fieldRequest], []byte(" "))
		if i := bytes.LastIndex(v[fieldPath], []byte(" HTTP/")); i >= 0 {
			v[fieldPath] = v[fieldPath][:i]
		}
	}
	if !f.has[fieldMethod] && !f.has[fieldRequest] {
		v[fieldMethod] = []byte(http.MethodGet)
	}
	if !f.has[fieldPath] && !f.has[fieldRequest] {
		v[fieldPath] = []byte("/")
	}
	if r.Method != string(v[fieldMethod]) { // a string is made only where it is another one
		r.Method = string(v[fieldMethod])
	}
	known := false
	if r.URL, known = l.urls[string(v[fieldPath])]; !known {
		uri := string(v[fieldPath])
		if r.URL, _ = url.ParseRequestURI(uri); len(l.urls) < 1000 && len(uri) < 1000 {
			l.urls[uri] = r.URL
		}
	}
	if r.URL == nil || r.Method == "" {
		return false
	}
	r.RemoteAddr, r.Host, l.user = string(v[fieldIP]), string(v[fieldHost]), string(v[fieldUser])
	for i, name := range f.headers {
		value, old := v[fieldHeaders+i], r.Header[name]
		if len(value) == 0 && old != nil {
			delete(r.Header, name)
		} else if len(value) > 0 && (old == nil || old[0] != string(value)) {
			r.Header[name] = []string{string(value)}
		}
	}
	return true
}

// add keeps a request of a client, while there is memory for it.
func (l *Log) add(key string, at uint64) {
	id, known := l.ids[key]
	if l.bytes >= l.config.MaxBytes {
		l.left[beyond]++
		return
	}
	if !known {
		id = uint32(len(l.names))
		l.ids[key], l.names, l.bytes = id, append(l.names, key), l.bytes+clientBytes+int64(len(key))
	}
	l.times, l.clients, l.bytes = append(l.times, at), append(l.clients, id), l.bytes+requestBytes
}
