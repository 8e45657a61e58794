package live

import (
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sashlimit/sash/core"
)

// sessions are the sessions of all pages, at most maxSessions: the one that was not used for longest makes room. It is
// safe for concurrent use.
type sessions struct {
	stores *Stores
	log    core.Observer

	mu   sync.Mutex
	byID map[string]*session
}

// open returns a new session.
func (s *sessions) open(settings Settings) (*session, error) {
	x, err := newSession(rand.Text(), settings, s.stores, s.log)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= maxSessions {
		all := slices.Collect(maps.Values(s.byID))
		oldest := slices.MinFunc(all, func(a, b *session) int { return a.used.Compare(b.used) })
		delete(s.byID, oldest.id)
	}
	x.used = time.Now()
	s.byID[x.id] = x
	return x, nil
}

// find returns the session of an id, or nil.
func (s *sessions) find(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.byID[id]
	if x != nil {
		x.used = time.Now()
	}
	return x
}
