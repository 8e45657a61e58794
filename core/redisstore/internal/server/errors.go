package server

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore/internal/script"
	"github.com/sashlimit/sash/internal/errs"
)

var (
	// ErrLate says that no reply has come until the deadline, and ErrQueued that a request has not been sent until
	// then.
	ErrLate   = core.AtStage(core.StageReply, fmt.Errorf("sash: waiting for Redis: %w", core.ErrTimeout))
	ErrQueued = core.AtStage(core.StageQueued, fmt.Errorf("sash: waiting to ask Redis: %w", core.ErrTimeout))

	// errPanic is in the error of a call at which go-redis panicked, as it does at a
	// reply that announces an impossible length. Decisions run in goroutines where net/http
	// does not recover, so that the panic would end the process.
	errPanic = errors.New("sash: the Redis client cannot read the reply")
)

// PanicError returns the error of a call at which go-redis panicked.
func PanicError(panicked any) error { return fmt.Errorf("%w: %v", errPanic, panicked) }

// errEnded returns the error of a request whose context has ended. The request may have been counted, so its stage is
// StageReply, and no cached refusal answers it.
func errEnded(ctx context.Context) error {
	return core.AtStage(core.StageReply, fmt.Errorf("sash: waiting for Redis: %w", context.Cause(ctx)))
}

// IsReply reports whether err is what a server answered.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// codePattern finds the code of an error: its first word. Kvrocks writes ERR before it, and in a script Redis before
// version 7 and KeyDB the place, "@user_script: 204: -", perhaps after other words.
var codePattern = regexp.MustCompile(`^(?:ERR )?(?:.*@user_script: ?\d+: )?-?([A-Z]+)\b`)

// codesByText has texts of errors that some servers send as ERR, and the code that others send.
var codesByText = []struct{ text, code string }{
	{"Protocol error: unauthenticated", "NOAUTH"},
	{"invalid password", "WRONGPASS"},           // Redis 5
	{"no password is set", "WRONGPASS"},         // Redis 5
	{"without any password", "WRONGPASS"},       // Redis 6
	{"The user executing the script", "NOPERM"}, // Redis 7.0
	{"ACL failure in script", "NOPERM"},         // Redis 7.2, Valkey
	{"Out of memory", "OOM"},                    // Dragonfly
	{"in same slot", "CROSSSLOT"},               // Tair
}

// codeOf returns the code of what a server answered, such as "READONLY"; "ERR" is one that says nothing.
func codeOf(err error) string {
	var reply redis.Error
	if errors.As(err, &reply) {
		err = reply // others may have wrapped it in their words
	}
	for _, u := range codesByText {
		if strings.Contains(err.Error(), u.text) {
			return u.code
		}
	}
	if found := codePattern.FindStringSubmatch(err.Error()); found != nil {
		return found[1]
	}
	return ""
}

// HasCode reports whether err is what a server answered, with one of these codes.
func HasCode(err error, codes ...string) bool {
	return IsReply(err) && slices.Contains(codes, codeOf(err))
}

// IsBatchError reports whether nothing has run because the requests came together: their keys are of several slots, as
// behind the address of a server there is a cluster, or one of the keys is forbidden.
func IsBatchError(err error) bool {
	// NOPERM for a command inside the script may come after some requests were counted: they are not sent again.
	denied := HasCode(err, "NOPERM") && !strings.Contains(err.Error(), "script")
	return denied || HasCode(err, "CROSSSLOT")
}

// NotRun reports whether err says that the server has not run a script.
func NotRun(err error) bool { return HasCode(err, "NOSCRIPT", "MOVED", "ASK", "TRYAGAIN") }

// Commands lists the rights of an ACL user, as docs/operations.md has it: the commands
// of the script, and the ones by which go-redis connects.
const Commands = "+evalsha +eval +del +time +get +set +setrange +lindex +lrange +lset +llen +rpush +ltrim +pexpire " +
	"+select +client|setname +ping +cluster|slots +asking +readonly"

// hints tell an operator what to do about an error, by its code.
var hints = map[string]string{
	"NOAUTH": "the server asks for a password: set Password, and Username for an ACL user, in the client's options",
	"WRONGPASS": "the server refuses the user name or the password in the client's options: correct them, " +
		"or leave them out if the server has none",
	"NOPERM": "the ACL user may not do what a decision needs: allow it " + Commands +
		", on keys ~PREFIX:* (PREFIX is that of redisstore.WithPrefix, sash by default)",
	"MOVED":      "the server is one node of a cluster, and another has the client: use redis.NewClusterClient",
	"READONLY":   "this is a replica and cannot count: give the master's address",
	"NOREPLICAS": "the server has fewer replicas than its min-replicas-to-write: mend them, or lower it",
	"OOM":        "the server is full: raise maxmemory, or give limits a Redis of their own",
}

// Hint returns what an operator can do about err, or "" if that is not known.
func Hint(err error) string {
	hint, known := hints[codeOf(err)]
	switch {
	case errors.Is(err, script.ErrCorrupt):
		return "another program writes below the prefix of the store: give one of them another, " +
			"or limits a Redis of their own"
	case known:
		return hint
	case strings.Contains(err.Error(), "tls: "):
		return "the TLS handshake fails: do RootCAs, ServerName and Certificates " +
			"in the client's TLSConfig fit the server?"
	case core.StageOf(err) == core.StageConnect:
		return Unreachable
	}
	return ""
}

// Unreachable is the hint of an error of the connection.
const Unreachable = "the server cannot be reached: is it up, is the address right, is the network open, " +
	"does the server speak TLS where the client does, and only there?"

// withHint returns err with its hint, if that is known.
func withHint(err error) error { return errs.WithHint(Hint(err), err) }

// failureCodes are the codes of a server that cannot decide for now. Other errors are answers: the server is there, and
// waiting for it costs nothing.
var failureCodes = []string{"READONLY", "MASTERDOWN", "LOADING", "MISCONF", "NOREPLICAS"}

// IsFailure reports whether err speaks against the server. That the program has closed the client does not.
func IsFailure(err error) bool {
	return err != nil && !errors.Is(err, redis.ErrClosed) && (!IsReply(err) || HasCode(err, failureCodes...))
}
