package core

import (
	"errors"
	"strconv"
	"strings"

	"github.com/sashlimit/sash/internal/errs"
)

// trouble is a kind of decision that LogErrors writes about, by what happens to the
// requests.
type trouble uint8

const (
	noTrouble trouble = iota
	servedUncounted
	refusedUncounted
	fallbackDecides
	fallbackFails
	namesNoClient
	keyFails
	limitsFail
	malformed
	troubles // how many kinds there are
)

var troubleMessages = [troubles]string{
	servedUncounted:  "sash: the store cannot be asked: requests are served, uncounted",
	refusedUncounted: "sash: the store cannot be asked: requests are refused",
	fallbackDecides:  "sash: the store cannot be asked: the fallback decides",
	fallbackFails:    "sash: neither the store nor its fallback can be asked: requests are refused",
	namesNoClient:    "sash: requests that name no client are refused",
	keyFails:         "sash: the key function fails: requests are refused",
	limitsFail:       "sash: the limits of requests cannot be found out: the requests are refused",
	malformed:        "sash: malformed requests are refused",
}

// Statuses of HTTP that tell why an adapter has refused a request without asking.
const (
	statusNamesNoClient = 400
	statusCannotDecide  = 500
)

// troubleOf returns the kind of an event.
func troubleOf(e *Event) trouble {
	d := &e.Decision
	switch {
	case d.Err == nil:
		return noTrouble
	case e.Status == statusNamesNoClient: // first, as an error of a key function may match those below
		return namesNoClient
	case d.Source == Unasked && errors.Is(d.Err, ErrLimits):
		return limitsFail
	case d.Source == Unasked && errors.Is(d.Err, ErrInvalid):
		return malformed
	case e.Status == statusCannotDecide:
		return keyFails
	case d.Source == FromFallback:
		return fallbackDecides
	case d.Source != FromPolicy: // the caller left
		return noTrouble
	case d.Allowed:
		return servedUncounted
	case e.Stage == StageFallback:
		return fallbackFails
	}
	return refusedUncounted
}

// isOutage reports whether the trouble is the store's.
func (t trouble) isOutage() bool { return t >= servedUncounted && t <= fallbackFails }

// remedy returns what to do about an event of kind t.
func (t trouble) remedy(err error) string {
	switch {
	case t == namesNoClient:
		return "is the limit behind the authentication, or whatever sets what its key function reads? " +
			"To limit requests without a name by address, use keyfuncs.First with keyfuncs.RemoteIP at the end; " +
			"what names a client ambiguously, such as a header that came twice, is refused there too"
	case t == keyFails:
		return "the error is that of the key function: can what it asks be reached, " +
			"and is the limit behind the authentication that it relies on?"
	case t == limitsFail:
		return "the error is that of the function of WithLimits or WithLimiter: can what it asks be reached?"
	case t == malformed:
		return "give each client a key, costs of 0 or more, and limits that differ from the rule's in Requests alone"
	}
	return printable(RemedyOf(err), maxNotice)
}

// The most bytes of texts that others write, in a log.
const (
	maxLoggedError = 500
	maxNotice      = 1000
)

// loggedText returns the text of an error for a line of which the message says that the
// store could not be asked.
func loggedText(err error) string {
	return printable(strings.TrimPrefix(errs.Text(err), errs.Text(ErrStore)+": "), maxLoggedError)
}

// printable returns text for a log: at most so many bytes of it, and escaped as in Go
// what cannot be printed. Handlers of slog put it in quotes where it needs them.
func printable(text string, most int) string {
	rest := ""
	if len(text) > most {
		text, rest = text[:most], "..."
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`) + rest
}
