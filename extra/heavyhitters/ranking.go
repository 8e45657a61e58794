package heavyhitters

import (
	"cmp"
	"slices"
	"time"

	"github.com/sashlimit/sash/core"
)

// Ranking lists the heaviest clients of a rule, the heaviest first.
type Ranking struct {
	Limiter string       `json:"limiter"` // Config.Name
	Rule    string       `json:"rule"`    // the rule's name, empty for the limiter itself
	Outcome core.Outcome `json:"outcome"` // core.OutcomeRefused or core.OutcomeAdmitted
	Since   time.Time    `json:"since"`   // time of New or the last Reset
	Clients []Client     `json:"clients"`

	// Requests counts the requests of all clients of the rule, with this outcome.
	Requests uint64 `json:"requests"`

	// Unlisted is an upper bound on the requests of each client that is not in Clients.
	Unlisted uint64 `json:"unlisted"`
}

// Client is a client of a [Ranking].
type Client struct {
	// Key is the client's key. It may contain any bytes: escape it. A key longer than 96 bytes is cut, but clients with
	// the same beginning are still counted separately.
	Key string `json:"key"`
	Cut bool   `json:"cut,omitempty"` // the key was longer

	// The client made at least AtLeast and at most Requests requests.
	AtLeast  uint64 `json:"at_least"`
	Requests uint64 `json:"at_most"`
}

// Top returns the heaviest clients of a rule of a limiter. The rule "" is the limiter
// itself. The Ranking is empty for an unknown rule or outcome. Clients are in the order
// of AtLeast. Requests that are counted concurrently may be missing.
func (c *Clients) Top(limiter, rule string, o core.Outcome) Ranking {
	if r := c.find(limiter, rule); r != nil && o < outcomes {
		return c.ranking(r, o)
	}
	return Ranking{Limiter: limiter, Rule: rule, Outcome: o, Since: *c.since.Load()}
}

// Rankings returns the rankings with requests, ordered by limiter and rule, and of a rule the refused requests first.
func (c *Clients) Rankings() []Ranking {
	all := []Ranking{}
	for _, r := range *c.rules.Load() {
		for o := range outcomes {
			if ranking := c.ranking(r, o); ranking.Requests > 0 {
				all = append(all, ranking)
			}
		}
	}
	slices.SortFunc(all, func(a, b Ranking) int {
		return cmp.Or(cmp.Compare(a.Limiter, b.Limiter), cmp.Compare(a.Rule, b.Rule), cmp.Compare(b.Outcome, a.Outcome))
	})
	return all
}

// ranking returns the ranking of a rule.
func (c *Clients) ranking(r *rule, o core.Outcome) Ranking {
	ranking := Ranking{Limiter: r.limiter, Rule: r.name, Outcome: o, Since: *c.since.Load()}
	var clients []Client
	for i := range r.tables[o].sets {
		var requests, unlisted uint64
		clients, requests, unlisted = r.tables[o].sets[i].add(clients)
		ranking.Requests += requests
		ranking.Unlisted = max(ranking.Unlisted, unlisted)
	}
	slices.SortFunc(clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Key, b.Key))
	})
	k := min(c.k, len(clients))
	for _, c := range clients[k:] {
		ranking.Unlisted = max(ranking.Unlisted, c.Requests)
	}
	ranking.Clients = slices.Clone(clients[:k])
	return ranking
}
