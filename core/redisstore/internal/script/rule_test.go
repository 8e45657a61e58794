package script

import (
	"strings"
	"testing"
	"time"

	"github.com/sashlimit/sash/core"
)

func TestKeys(t *testing.T) {
	hourly := core.PerHour(1).Using(core.SlidingCounter).Named("hourly")
	long := strings.Repeat("k", 64)
	for _, test := range []struct {
		prefix, name, rule, client string
		limit                      core.Limit
		want                       string
	}{
		{"sash", "api", "", "ip:198.51.100.7", core.PerMinute(1), "sash:{api//ip:198.51.100.7}:l1m0s"},
		{"sash", "api", "login", "user:42", hourly, "sash:{api/login/user:42}:c1h0m0s:hourly"},
		{"app:limits", "", "", "a/b", core.Per(1, 1500*time.Millisecond), "app:limits:{//a/b}:l1.5s"},
		{"sash", "a/b", "c{}", "#{ }\n%é", core.PerDay(1), "sash:{a%2Fb/c%7B%7D/%23%7B%20%7D%0A%25%C3%A9}:l24h0m0s"},
		{"sash", "", "", long, core.PerSecond(1), "sash:{//" + long + "}:l1s"},
		{"sash", "", "", long + "k", core.PerSecond(1), "sash:{//#85zcJYR1jJnPgcH0HSVy9U4XBmr__J0Yeur-X3y-ISI}:l1s"},
	} {
		l := test.limit
		if l.Name == "" {
			l.Name = l.Window.String()
		}
		rule := core.Binding{Name: test.name, Rule: test.rule, Limits: []core.Limit{l}}
		r := New(test.prefix, rule, Script{})
		if got := r.Keys(nil, test.client)[0]; got != test.want {
			t.Errorf("%q %q %q:\n got %s\nwant %s", test.name, test.rule, test.client, got, test.want)
		}
	}
}

// tagOf returns the braces of a key and what is in them.
func tagOf(name, rule, client string) string {
	r := Rule{Binding: core.Binding{Name: name, Rule: rule}, suffixes: []string{""}}
	return strings.TrimPrefix(r.Keys(nil, client)[0].(string), ":")
}

// FuzzTag: different clients have different tags, and nothing that they hold
// can end the tag early, start another, or make it long.
func FuzzTag(f *testing.F) {
	f.Add("api", "login", "ip:198.51.100.7", "api", "login", "ip:198.51.100.8")
	f.Add("a", "b/c", "d", "a/b", "c", "d")
	f.Add("", "", "#", "", "", "%23")
	f.Add("", "", "}", "", "", "%7D")
	f.Add("", "", "", "", "", "#47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU")
	f.Add("a", "", "\x00\xff{}", "a", "", strings.Repeat("x", 10_000))
	f.Fuzz(func(t *testing.T, name, rule, client, name2, rule2, client2 string) {
		tag, tag2 := tagOf(name, rule, client), tagOf(name2, rule2, client2)
		if same := name == name2 && rule == rule2 && client == client2; same != (tag == tag2) {
			t.Fatalf("%q %q %q and %q %q %q: %s and %s", name, rule, client, name2, rule2, client2, tag, tag2)
		}
		if tag[0] != '{' || strings.IndexByte(tag, '}') != len(tag)-1 || strings.LastIndexByte(tag, '{') != 0 {
			t.Fatalf("%q: the braces of %s are not its ends", client, tag)
		}
		for i := range len(tag) {
			if tag[i] <= ' ' || tag[i] > '~' {
				t.Fatalf("%q: %q is not printable", client, tag)
			}
		}
		if most := 3*len(name) + 3*len(rule) + 64 + 4; len(tag) > most {
			t.Fatalf("%q: the tag has %d bytes", client, len(tag))
		}
	})
}

// TestUnknownAlgorithm: an algorithm that is not known is not taken for another one.
func TestUnknownAlgorithm(t *testing.T) {
	unknown := core.Algorithm(len(core.Algorithms()))
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "unknown algorithm: "+unknown.String()) {
			t.Errorf("the panic is %q", text)
		}
	}()
	algorithmOf(unknown)
}
