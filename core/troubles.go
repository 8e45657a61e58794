package core

import (
	"strconv"
	"strings"

	"github.com/sashlimit/sash/internal/errs"
)

// troubles are the outcomes that LogErrors writes about, by what happens to the requests. A
// refusal by a fallback has the line of an admission.
var troubles = [outcomes]string{
	OutcomeFailedOpen:       "sash: the store cannot be asked: requests are served, uncounted",
	OutcomeFailedClosed:     "sash: the store cannot be asked: requests are refused",
	OutcomeFallbackAdmitted: "sash: the store cannot be asked: the fallback decides",
	OutcomeFallbackFailed:   "sash: neither the store nor its fallback can be asked: requests are refused",
	OutcomeNameless:         "sash: requests that name no client are refused",
	OutcomeKeyFailed:        "sash: the key function fails: requests are refused",
	OutcomeLimitsFailed:     "sash: the limits of requests cannot be found out: the requests are refused",
	OutcomeInvalid:          "sash: malformed requests are refused",
}

// troubleOf returns the outcome of an event as a log has it: without Shadow, which is told
// beside it.
func troubleOf(e *Event) Outcome {
	if o := e.decided(); o != OutcomeFallbackRefused {
		return o
	}
	return OutcomeFallbackAdmitted
}

// isOutage reports whether an outcome of troubleOf is one of a store that fails.
func isOutage(o Outcome) bool { return o >= OutcomeFallbackAdmitted && o <= OutcomeFallbackFailed }

// remedyFor returns what to do about an event with an outcome.
func remedyFor(o Outcome, err error) string {
	switch o {
	case OutcomeNameless:
		return "is the limit behind the authentication, or whatever sets what its key function reads? " +
			"To limit requests without a name by address, use keyfuncs.First with keyfuncs.RemoteIP at the end; " +
			"what names a client ambiguously, such as a header that came twice, is refused there too"
	case OutcomeKeyFailed:
		return "the error is that of the key function: can what it asks be reached, " +
			"and is the limit behind the authentication that it relies on?"
	case OutcomeLimitsFailed:
		return "the error is that of the function of WithLimits or WithLimiter: can what it asks be reached?"
	case OutcomeInvalid:
		return "give each client a key, costs of 0 or more, and limits that differ from the rule's in Requests alone"
	}
	return printable(remedyOf(err), maxNotice)
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
