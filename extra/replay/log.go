package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/memstore"
	"github.com/sashlimit/sash/keyfuncs"
)

// Config says how a log is read, and which limits are tried. The zero Config names clients by the address in the log,
// or by the host name that stands in its place, and tries no limit.
type Config struct {
	Key     keyfuncs.Func            // names the client; nil: keyfuncs.RemoteIP
	Headers []string                 // the request headers that Key reads: a log without one of them is an error
	Skip    func(*http.Request) bool // leaves out the requests for which it returns true; nil: none
	Limits  []core.Limit             // what is tried, together as in a rule; may be empty
	Routes  []Route                  // limits of routes, asked where Limits have admitted the request
	Windows []time.Duration          // in which clients are measured; nil: 1 s, 10 s, 1 min, 1 h, 24 h

	// Format is the format of nginx's log_format, such as `$remote_addr [$time_local] "$request"`. Fields says which
	// field of a line in JSON has what: "time=ts,ip=request.remote_ip,method=request.method,path=request.uri". The
	// others are user, host, request (the request line), date (where time has none), duration (of the request: its
	// line is written at its end) and header:NAME. Of a field that is given twice the first value counts. If both are
	// empty, common, combined, HAProxy's, Caddy's, Traefik's and W3C's are recognised by the first lines of a file.
	Format, Fields string

	MaxBytes  int64 // bounds the memory of requests and clients; 0: 400 MB
	HashNames bool  // names clients in the report by hashes, which differ in each run, and quotes no line

	// Progress is called while WriteHTML tries limits, with how many it has tried; nil: it is not.
	Progress func(tried, of int)
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
	requestBytes = 20  // of a request: 8, and room for more of the client
	clientBytes  = 120 // of a client, besides its name
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
	fraction bool // whether a time of the file was not a whole second
	whole    bool // whether a file had whole seconds alone

	ids      map[string]int // of clients, by their keys
	names    []string       // by id
	requests requests       // by id, sorted by Report
	bytes    int64          // that requests and clients take
	reported bool

	lines           int
	left            [len(omitReasons)]int // omitted lines, by reason
	examples, notes []string              // unreadable lines; notes of the report
	keyErr          error
}

// The reasons for the omission of a line.
const badLine, noRequest, skipped, unnamed, memoryFull = 0, 1, 2, 3, 4

var omitReasons = [...]string{"not readable",
	"without an HTTP request, such as those of a port scan and messages of the server",
	"left out by the choice of requests", "without a name for the client", "after the memory was full"}

type userKey struct{}

// User returns the user of a request in the log, for [keyfuncs.UserID].
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
	if len(c.Windows) == 0 {
		c.Windows = []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour, 24 * time.Hour}
	}
	if c.MaxBytes = cmp.Or(c.MaxBytes, defaultBytes); len(c.Routes) > 255 {
		return nil, fmt.Errorf("sash: %d routes: at most 255 are allowed", len(c.Routes))
	}
	rules := c.rules()
	for _, w := range c.Windows {
		rules = append(rules, Route{Limits: []core.Limit{core.Per(1, w)}})
	}
	for _, rule := range rules {
		_, err := core.New(core.Config{Store: memstore.New(), Limits: rule.Limits})
		if err != nil && len(rule.Limits) > 0 {
			return nil, err
		}
	}
	formats, err := formatsOf(c)
	l := &Log{config: c, formats: formats, salt: rand.Text(), urls: map[string]*url.URL{}, ids: map[string]int{}}
	ctx := context.WithValue(context.Background(), userKey{}, &l.user)
	l.request = (&http.Request{Header: http.Header{}}).WithContext(ctx)
	return l, err
}

// rules returns an unnamed route for Limits, followed by the routes.
func (c *Config) rules() []Route { return append([]Route{{Limits: c.Limits}}, c.Routes...) }

// compressed are the first bytes of files that Read does not decompress, and how to decompress them.
var compressed = []struct{ magic, how string }{
	{"\x28\xb5\x2f\xfd", "decompress it, as by zstd -dc"}, {"BZh", "decompress it, as by bzip2 -dc"},
	{"\xfd7zXZ", "decompress it, as by xz -dc"}, {"PK\x03\x04", "decompress it, as by unzip -p"},
	{"\xff\xfe", "it is UTF-16: convert it, as by iconv -f UTF-16 -t UTF-8"},
}

const byteOrderMark = "\ufeff"

// openLog returns the lines of a log that may be compressed by gzip.
func openLog(name string, r io.Reader) (*bufio.Reader, error) {
	in := bufio.NewReaderSize(r, longestLine)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		plain, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("sash: %.200q: %w", name, err)
		}
		in = bufio.NewReaderSize(plain, longestLine)
	}
	for _, c := range compressed {
		if magic, _ := in.Peek(len(c.magic)); string(magic) == c.magic {
			return nil, fmt.Errorf("sash: %.200q: %s", name, c.how)
		}
	}
	if magic, _ := in.Peek(len(byteOrderMark)); string(magic) == byteOrderMark {
		_, _ = in.Discard(len(byteOrderMark))
	}
	return in, nil
}

// file is a log that is read. Its format is nil until a line is in one.
type file struct {
	*Log
	name       string
	format     *format
	number     int // of the line
	start, bad int // lines before the file, and unreadable lines among them
	others     int // objects of JSON that are no access lines
}

// Read reads a log, which may be compressed by gzip. Files may be read in any order: Report sorts all requests by time.
// What cannot be read is counted; if that is more than one line in ten, Read returns an error that says what to do.
func (l *Log) Read(name string, r io.Reader) error {
	if l.reported {
		return errors.New("sash: Read after Report: make a new Log")
	}
	in, err := openLog(name, r)
	if err != nil {
		return err
	}
	f := &file{Log: l, name: name, start: l.lines, bad: l.left[badLine]}
	if len(l.formats) == 1 {
		f.format = l.formats[0]
	}
	for l.fraction = false; err == nil; {
		f.number++
		var line []byte
		if line, err = in.ReadSlice('\n'); err == nil || err == io.EOF {
			if wrong := f.read(bytes.TrimRight(line, "\r\n")); wrong != nil {
				return wrong
			}
		} else if errors.Is(err, bufio.ErrBufferFull) {
			f.badLine(line, fmt.Errorf("it has more than %d bytes", longestLine))
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
	}
	return f.end(err)
}

// read reads a line. Its error ends the reading.
func (f *file) read(line []byte) error {
	directive := len(line) > 0 && line[0] == '#' && len(f.formats) > 1 // of W3C's
	if f.format == nil || directive {
		if known := f.detect(line); known != nil {
			f.format = known
			if err := known.check(f.config); err != nil {
				return fmt.Errorf("%w (%.200q)", err, f.name)
			}
		}
	}
	if len(line) == 0 || directive {
		return nil
	}
	err := f.line(f.format, line)
	if err == errOther || f.format == nil && line[0] == '{' && json.Valid(line) {
		f.others++
		f.lines++
		f.left[noRequest]++
	} else if err != nil {
		f.badLine(line, err)
	}
	return nil
}

// end returns an error if a file has ended of err, and too little of it could be read.
func (f *file) end(err error) error {
	lines, bad := f.lines-f.start, f.left[badLine]-f.bad
	if f.others == lines { // the names of the fields are wrong
		bad = lines
	}
	switch {
	case lines == 0 && err != io.EOF:
		return fmt.Errorf("sash: %.200q: %w", f.name, err)
	case lines == 0:
		f.note("%.200q is empty.", f.name)
		return nil
	case f.format == nil:
		return fmt.Errorf("sash: %.200q: no line is in a format that is known%s", f.name, f.help())
	case bad*10 > lines:
		return fmt.Errorf("sash: %.200q: %s of %s cannot be read as %s%s",
			f.name, count(bad), plural(lines, "line"), f.format.name, f.help())
	case err != io.EOF:
		f.note("%.200q ends early, in line %s: %v.", f.name, count(f.number), err)
	}
	f.whole = f.whole || !f.fraction
	f.note("Read %.200q as %s.", f.name, f.format.name)
	return nil
}

func (l *Log) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

// Lines returns how many lines have been read.
func (l *Log) Lines() int { return l.lines }

// help says how a format is given, after the lines that could not be read.
func (l *Log) help() string {
	return ":\n" + strings.Join(append(l.examples, ""), "\n") + "Say how a line is written, in the words of nginx's " +
		"log_format:\n  -format '" + combined + "'\nor, where it is JSON, by the names of its fields:\n  -fields '" +
		"time=ts,ip=request.remote_ip,method=request.method,path=request.uri'"
}

// unreadable counts a line that cannot be read.
func (f *file) badLine(line []byte, err error) {
	f.lines++
	if f.left[badLine]++; f.left[badLine] > 3 {
		return
	}
	text := fmt.Sprintf("%.200q, line %d", f.name, f.number)
	if !f.config.HashNames {
		text += fmt.Sprintf(": %v: %.100q", err, line[:min(len(line), 1000)])
	}
	f.examples = append(f.examples, text)
}

// line reads a line, and keeps its request.
func (l *Log) line(f *format, line []byte) error {
	l.fields = values{}
	if f == nil {
		return errors.New("it is in no format that is known")
	} else if err := f.read(line, &l.fields); err != nil {
		return err
	}
	text := l.fields[fieldTime]
	if date := l.fields[fieldDate]; date != nil {
		text = slices.Concat(date, []byte{' '}, text)
	}
	if string(text) != l.timeText || l.at == 0 {
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
	key, err := l.key()
	if err != nil || key == "" {
		l.left[unnamed]++
		l.keyErr = err
		return nil
	}
	route := 1 + slices.IndexFunc(l.config.Routes, func(route Route) bool { return route.Match(r) })
	at := l.at
	if elapsed := f.readDuration(string(l.fields[fieldDuration])); elapsed > 0 && elapsed < 86400 {
		at = max(0, at-int64(elapsed*1e6))
	}
	l.add(key, uint64(at)<<8|uint64(route))
	return nil
}

// An address that no client has stands for a host name, which no key function takes.
const noAddr = "0.0.0.0"

var hostName = regexp.MustCompile(`^[0-9A-Za-z._-]*[A-Za-z][0-9A-Za-z._-]*$`)

// key names the client of the request: one without an address, by the name of its host.
func (l *Log) key() (string, error) {
	key, err := l.config.Key(l.request)
	if name := l.request.RemoteAddr; err != nil && hostName.MatchString(name) {
		l.request.RemoteAddr = noAddr
		if key, again := l.config.Key(l.request); again == nil {
			return strings.Replace(key, "ip:"+noAddr, "host:"+name, 1), nil
		}
	}
	return key, err
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
		l.left[memoryFull]++
		return
	}
	if !known {
		id = len(l.names)
		l.ids[key], l.names, l.requests = id, append(l.names, key), append(l.requests, nil)
		l.bytes += clientBytes + int64(len(key))
	}
	l.requests[id], l.bytes = append(l.requests[id], at), l.bytes+requestBytes
}
