package replay

import (
	"fmt"
	"strconv"
	"time"
)

// layouts are the ways in which times are written. All may have a fraction of a second; one without a zone is UTC.
var layouts = []string{
	"02/Jan/2006:15:04:05 -0700", time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 -0700", "2006-01-02T15:04:05", time.DateTime, "2006/01/02 15:04:05", "02/Jan/2006:15:04:05",
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

// took returns how long a request took, in microseconds; 0 if the log does not say it, or not within a day.
func took(text string) int64 {
	if text == "" {
		return 0 // most logs
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d, _ := time.ParseDuration(text)
		seconds = d.Seconds()
	}
	if seconds > 0 && seconds < 86400 {
		return int64(seconds * 1e6)
	}
	return 0
}
