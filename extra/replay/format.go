package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The fields of a line. From fieldHeaders on they are request headers.
const (
	fieldNone, fieldDate, fieldTime, fieldDuration, fieldMessage                      = 0, 1, 2, 3, 4
	fieldIP, fieldUser, fieldRequest, fieldMethod, fieldPath, fieldHost, fieldHeaders = 5, 6, 7, 8, 9, 10, 11

	maxFields = fieldHeaders + 16
)

// values holds the fields of a line. They are parts of the line where that is possible.
type values [maxFields][]byte

// words name the fields: nginx's variables for Config.Format, the names of Config.Fields, and W3C's.
var words = map[string]int{
	"time_local": fieldTime, "time_iso8601": fieldTime, "msec": fieldTime, "time": fieldTime,
	"remote_addr": fieldIP, "ip": fieldIP, "remote_user": fieldUser, "user": fieldUser,
	"request": fieldRequest, "request_method": fieldMethod, "method": fieldMethod,
	"request_uri": fieldPath, "uri": fieldPath, "path": fieldPath, "host": fieldHost, "http_host": fieldHost,
	"request_time": fieldDuration, "duration": fieldDuration, "date": fieldDate, "message": fieldMessage,
	"c-ip": fieldIP, "cs-username": fieldUser, "cs-method": fieldMethod, "cs-uri-stem": fieldPath,
	"cs-host": fieldHost, "cs(Host)": fieldHost, "x-host-header": fieldHost, "time-taken": fieldDuration,
}

var variable = regexp.MustCompile(`\$\{?(\w+)\}?`)

// format reads the lines of a log.
type format struct {
	name    string
	has     [maxFields]bool
	headers []string // by field, from fieldHeaders on
	parts   []part
	json    bool
	w3c     bool // fields stand between blanks or tabs, and durations are milliseconds where they are whole
}

// part is a field and the text after it; the first part has the text before the first field. In JSON it is a field and
// the path to it.
type part struct {
	field int
	text  []byte
}

// known are the formats that are recognised, besides W3C's. One that has more comes before one that has less. A format
// of JSON has what stands before the names of headers. Of a field that is there twice the first value counts.
var known = []struct{ name, text, header string }{
	{"combined with X-Forwarded-For", combined + ` "$http_x_forwarded_for"`, ""},
	{"combined with the host", `$host ` + combined, ""},
	{"combined", combined, ""},
	{"common", common, ""},
	{"HAProxy's", haproxy, ""},
	{"HAProxy's by syslog", `$syslog haproxy[$pid]: ` + haproxy, ""},
	{"Caddy's JSON", "time=ts,duration=duration,ip=request.remote_ip,ip=request.remote_addr,user=user_id," +
		"method=request.method,path=request.uri,host=request.host,message=msg", "request.headers."},
	{"Traefik's JSON", "time=StartUTC,time=StartLocal,time=time,ip=ClientHost,ip=ClientAddr,user=ClientUsername," +
		"method=RequestMethod,path=RequestPath,host=RequestHost", "request_"},
}

const (
	common   = `$remote_addr $ident $remote_user [$time_local] "$request" $status $bytes`
	combined = common + ` "$http_referer" "$http_user_agent"`
	haproxy  = `$remote_addr:$port [$time_local] $frontend $backend $rest "$request"`

	accessMessage = "handled request" // the message of Caddy's access lines, as against its errors
)

// formatsOf returns the format that a Config gives, or all that are known.
func formatsOf(c Config) (all []*format, err error) {
	if c.Format != "" && c.Fields != "" {
		return nil, errors.New("sash: a format, which is of text, and fields, which are of JSON: give one of both")
	}
	if own := cmp.Or(c.Format, c.Fields); own != "" {
		f, err := newFormat("the format", own, c.Fields != "")
		if err == nil {
			err = f.check(c)
		}
		return []*format{f}, err
	}
	for _, k := range known {
		for _, name := range slices.Concat(c.Headers, []string{"X-Forwarded-For", "User-Agent"}) {
			if k.header != "" {
				k.text += ",header:" + name + "=" + k.header + http.CanonicalHeaderKey(name)
			}
		}
		f, err := newFormat(k.name, k.text, k.header != "")
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// newFormat returns the format of a text: of JSON such as "time=ts,ip=request.remote_ip", or with nginx's variables.
func newFormat(name, text string, isJSON bool) (*format, error) {
	f := &format{name: name, json: isJSON}
	if isJSON {
		for pair := range strings.SplitSeq(text, ",") {
			word, path, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if err := f.add(word, path); err != nil || path == "" || f.parts[len(f.parts)-1].field == fieldNone {
				return nil, fmt.Errorf("sash: %s: %.60q is not a field of a request and its name in the log: "+
					"give time, date, ip, user, method, path, host, request, duration or header:NAME, "+
					"such as ip=request.remote_ip", name, pair)
			}
		}
		return f, nil
	}
	word, from := "", 0
	end := []int{len(text), len(text), len(text), len(text)}
	for _, at := range append(variable.FindAllStringSubmatchIndex(text, -1), end) {
		if from > 0 && at[0] == from && from < len(text) {
			return nil, fmt.Errorf("sash: %s: nothing stands between $%s and what follows it", name, word)
		}
		if err := f.add(word, text[from:at[0]]); err != nil {
			return nil, err
		}
		word, from = text[at[2]:at[3]], at[1]
	}
	return f, nil
}

// newW3C returns the format of a line such as "#Fields: date time c-ip cs-method": of IIS and of CloudFront.
func newW3C(line string) (*format, error) {
	f := &format{name: "W3C's", w3c: true, parts: []part{{}}}
	for word := range strings.FieldsSeq(strings.TrimPrefix(line, w3cFields)) {
		if err := f.add(word, " "); err != nil {
			return nil, err
		}
	}
	f.parts[len(f.parts)-1].text = nil
	return f, nil
}

const w3cFields = "#Fields:"

var header = regexp.MustCompile(`^(?:http_|header:|cs\()([^)]+)\)?$|^(x-forwarded-for)$`)

// add adds the part of a word: one of words, the name of a header as http_NAME, header:NAME, cs(NAME) or
// x-forwarded-for, or any other, which is not looked at.
func (f *format) add(word, text string) error {
	field := words[word]
	if name := header.FindStringSubmatch(word); field == fieldNone && name != nil {
		field = fieldHeaders + len(f.headers)
		f.headers = append(f.headers, http.CanonicalHeaderKey(strings.ReplaceAll(name[1]+name[2], "_", "-")))
		if field == maxFields {
			return fmt.Errorf("sash: %s has more than %d headers", f.name, maxFields-fieldHeaders)
		}
	}
	f.has[field] = true
	f.parts = append(f.parts, part{field, []byte(text)})
	return nil
}

// check returns an error if a format lacks what a Config asks for.
func (f *format) check(c Config) error {
	missing := ""
	if (c.Skip != nil || len(c.Routes) > 0) && !f.has[fieldPath] && !f.has[fieldRequest] {
		missing = "path, which a choice of requests needs: $request or path"
	}
	for _, name := range c.Headers {
		if name = http.CanonicalHeaderKey(name); !slices.Contains(f.headers, name) {
			missing = "header " + name + ", which names the client: $http_" +
				strings.ReplaceAll(strings.ToLower(name), "-", "_") + " or header:" + name
		}
	}
	if !f.has[fieldTime] {
		missing = "time: $time_local, $time_iso8601, $msec or time"
	}
	if missing != "" {
		return fmt.Errorf("sash: %s has no %s in a format or in fields of your own", f.name, missing)
	}
	return nil
}

// detect returns the format of a line, or nil: a format with an address, or else with a host name. A W3C format is
// defined by its own line.
func (l *Log) detect(line []byte) (named *format) {
	if bytes.HasPrefix(line, []byte(w3cFields)) {
		named, _ = newW3C(string(line))
		return named
	}
	for _, f := range l.formats {
		var v values
		if f.read(line, &v) != nil || len(v[fieldIP]) == 0 {
			continue
		}
		_, noTime := readTime(string(v[fieldTime]))
		if _, noAddr := netip.ParseAddr(string(v[fieldIP])); noTime == nil && noAddr == nil {
			return f
		} else if noTime == nil && named == nil {
			named = f
		}
	}
	return named
}

// errOther says that an object of JSON is no access line, such as a message of the server itself.
var errOther = errors.New("it holds no request")

// read sets v to the fields of a line.
func (f *format) read(line []byte, v *values) error {
	if f.json {
		return f.readJSON(line, v)
	}
	if f.w3c {
		line = bytes.ReplaceAll(line, []byte{'\t'}, []byte{' '})
	}
	line, found := bytes.CutPrefix(line, f.parts[0].text)
	for _, p := range f.parts[1:] {
		end := index(line, p.text)
		if p.field == fieldIP && string(p.text) == ":" { // of which an IPv6 address has more
			word, _, _ := bytes.Cut(line, []byte{' '})
			end = bytes.LastIndexByte(word, ':')
		}
		if end < 0 || !found {
			return fmt.Errorf("it has too few fields: %q is missing", p.text)
		}
		value := line[:end]
		line = line[end+len(p.text):]
		if string(value) == "-" || v[p.field] != nil {
			continue
		}
		v[p.field] = value
		if bytes.IndexByte(value, '\\') >= 0 { // \x22 of nginx, \" of Apache
			if plain, err := strconv.Unquote(`"` + string(value) + `"`); err == nil {
				v[p.field] = []byte(plain)
			}
		}
	}
	return nil
}

// readJSON sets v to the fields of an object.
func (f *format) readJSON(line []byte, v *values) error {
	var object map[string]any
	if err := json.Unmarshal(line, &object); err != nil {
		return fmt.Errorf("it is no object of JSON: %w", err)
	}
	request := false
	for _, p := range f.parts {
		if len(v[p.field]) == 0 {
			v[p.field] = []byte(lookUp(object, string(p.text)))
		}
		request = request || p.field >= fieldIP && len(v[p.field]) > 0
	}
	if text := v[fieldMessage]; !request || len(text) > 0 && string(text) != accessMessage {
		return errOther
	}
	return nil
}

// index returns where a text begins in a line; an empty one, at its end. A text that begins with a quote begins at the
// first one, since quotes in values stand after backslashes.
func index(line, text []byte) int {
	if len(text) == 0 {
		return len(line)
	}
	if text[0] != '"' {
		return bytes.Index(line, text)
	}
	for from := 0; ; from++ {
		i := bytes.IndexByte(line[from:], '"')
		if from += i; i < 0 {
			return -1
		}
		before := line[:from]
		if (len(before)-len(bytes.TrimRight(before, `\`)))%2 == 0 {
			if bytes.HasPrefix(line[from:], text) {
				return from
			}
			return -1
		}
	}
}

// lookUp returns the text of the value at a path such as request.headers.Host. A name on it may have dots itself.
func lookUp(object map[string]any, path string) (text string) {
	for i := range path {
		if inner, ok := object[path[:i]].(map[string]any); ok && path[i] == '.' {
			return lookUp(inner, path[i+1:])
		}
	}
	switch value := object[path].(type) {
	case string:
		if text = value; value == "-" {
			text = ""
		}
	case float64:
		text = strconv.FormatFloat(value, 'f', -1, 64)
	case []any: // of a header
		lines := make([]string, len(value))
		for i, one := range value {
			lines[i] = fmt.Sprint(one)
		}
		text = strings.Join(lines, ", ")
	}
	return text
}

// layouts are the ways in which times are written. All may have a fraction of a second; one without a zone is UTC.
var layouts = []string{
	"02/Jan/2006:15:04:05 -0700", time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 -0700", "2006-01-02T15:04:05", time.DateTime, "2006/01/02 15:04:05", "02/Jan/2006:15:04:05",
	http.TimeFormat,
}

// latest is above all times, in microseconds: the year 2255.
const latest = 1 << 53

// readTime returns the time of a text in microseconds since 1970: of a date, or of a number of seconds, or of milli-,
// micro- or nanoseconds if it is too large for seconds.
func readTime(text string) (at int64, err error) {
	if n, notNumber := strconv.ParseFloat(text, 64); notNumber == nil && n > 0 && n < 1e20 {
		for n >= 1e11 {
			n /= 1000
		}
		at = int64(n*1e6 + 0.5)
	}
	for i := 0; at == 0 && i < len(layouts); i++ {
		if t, err := time.Parse(layouts[i], text); err == nil {
			at = t.UnixMicro()
		}
	}
	if at <= 0 || at >= latest {
		return 0, fmt.Errorf("%.40q is no time from 1970 to 2255", text)
	}
	return at, nil
}

// readDuration returns the duration of a text in seconds: of a number, or of text such as 1.5ms.
func (f *format) readDuration(text string) float64 {
	if d, err := time.ParseDuration(text); err == nil {
		return d.Seconds()
	}
	n, _ := strconv.ParseFloat(text, 64)
	if f.w3c && !strings.Contains(text, ".") {
		n /= 1000
	}
	return n
}
