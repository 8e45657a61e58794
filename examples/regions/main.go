// Program regions shows one limit over three regions: three Redis servers, a client that asks in
// all of them, and a table that is drawn each second. After a third of the time one region is cut off,
// and after two thirds it is back.
//
//	regions [-for 30s] [-strict]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sashlimit/sash/core"
	"github.com/sashlimit/sash/core/redisstore"
	"github.com/sashlimit/sash/core/regions"
)

const (
	limit  = 100
	window = 5 * time.Second
	far    = 40 * time.Millisecond // one way between regions
	asks   = 20 * time.Millisecond // in each region
)

var names = []string{"ap", "eu", "us"}

func main() {
	lasts := flag.Duration("for", 30*time.Second, "how long to run")
	strict := flag.Bool("strict", false, "never admit more than the limit")
	flag.Parse()
	if err := run(*lasts, *strict); err != nil {
		log.Fatal(err)
	}
}

// run runs the world for a while, and returns an error if more was admitted than the mode allows.
func run(lasts time.Duration, strict bool) error {
	w := &world{addrs: map[string]string{}, admitted: map[string][]time.Time{}}
	defer w.stop()
	for _, name := range names {
		if err := w.start(name); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	var clients sync.WaitGroup
	for _, name := range names {
		limiter, err := w.limiter(name, strict)
		if err != nil {
			return err
		}
		clients.Go(func() { w.ask(ctx, name, limiter) })
	}
	fmt.Printf("%d in %v, asked %d times a second in each of three regions, %v apart\n\n%-8s", limit, window,
		time.Second/asks, 2*far, "")
	for _, name := range names {
		fmt.Printf("%6s", name)
	}
	fmt.Println("    all, in the last", window)
	most := w.watch(ctx, lasts)
	clients.Wait()
	fmt.Printf("\nmost in any %v: %d\n", window, most)
	if strict && most > limit || most > 2*limit || most < limit/2 {
		return fmt.Errorf("%d were admitted in %v, under a limit of %d", most, window, limit)
	}
	return nil
}

// world is the regions: their servers, and the way between them.
type world struct {
	addrs   map[string]string
	servers []*exec.Cmd
	dirs    []string
	cut     atomic.Bool // whether "us" is cut off

	mu       sync.Mutex
	admitted map[string][]time.Time // by region
}

// start starts the Redis of a region.
func (w *world) start(name string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	if err := listener.Close(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sash-regions")
	if err != nil {
		return err
	}
	w.dirs = append(w.dirs, dir)
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir,
		"--logfile", filepath.Join(dir, "log"))
	if err := server.Start(); err != nil {
		return fmt.Errorf("redis-server: %w: make redis installs it", err)
	}
	w.servers, w.addrs[name] = append(w.servers, server), "127.0.0.1:"+port
	for range 100 {
		conn, err := net.Dial("tcp", w.addrs[name])
		if err == nil {
			return conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("redis-server does not answer")
}

// stop ends the servers.
func (w *world) stop() {
	for _, server := range w.servers {
		_ = server.Process.Kill()
		_ = server.Wait()
	}
	for _, dir := range w.dirs {
		_ = os.RemoveAll(dir)
	}
}

// limiter returns the limiter of a process in a region.
func (w *world) limiter(here string, strict bool) (*core.Limiter, error) {
	stores := map[string]core.Store{}
	for _, name := range names {
		stores[name] = redisstore.New(redis.NewClient(&redis.Options{
			Addr: w.addrs[name], Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				return &way{conn, w, here != name, here == "us" || name == "us"}, err
			},
		}))
	}
	store, err := regions.New(regions.Config{Here: here, Stores: stores, Strict: strict})
	if err != nil {
		return nil, err
	}
	return core.New(core.Config{
		Name: "demo", Store: store, Limits: []core.Limit{core.Per(limit, window)}, Timeout: 500 * time.Millisecond,
		OnStoreError: core.FailClosed, Observer: core.Silent,
	})
}

// way is a connection between regions, which takes time and may be cut.
type way struct {
	net.Conn
	world    *world
	far, cut bool // whether it leaves the region, and whether the cut is in it
}

func (c *way) Write(b []byte) (int, error) {
	if c.far {
		time.Sleep(2 * far) // both ways at once
		if c.cut && c.world.cut.Load() {
			return len(b), nil // lost
		}
	}
	return c.Conn.Write(b)
}

// ask asks in a region until ctx ends.
func (w *world) ask(ctx context.Context, name string, limiter *core.Limiter) {
	var requests sync.WaitGroup
	defer requests.Wait()
	for ; ctx.Err() == nil; time.Sleep(asks) {
		requests.Go(func() {
			if d := limiter.Allow(ctx, "client"); d.Allowed {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.admitted[name] = append(w.admitted[name], time.Now())
			}
		})
	}
}

// watch draws a line each second, cuts a region off and brings it back, and returns the most that a
// window held.
func (w *world) watch(ctx context.Context, lasts time.Duration) (most int) {
	began := time.Now()
	for ticks := time.Tick(time.Second); ; {
		select {
		case <-ctx.Done():
			return w.most()
		case <-ticks:
		}
		passed := time.Since(began)
		w.cut.Store(passed > lasts/3 && passed < 2*lasts/3)
		line, all := fmt.Sprintf("%6.0fs ", passed.Seconds()), 0
		for _, name := range names {
			n := w.lately(name)
			all += n
			line += fmt.Sprintf("%6d", n)
		}
		line += fmt.Sprintf("%7d  %s", all, strings.Repeat("#", all/4))
		if w.cut.Load() {
			line += "  us is cut off"
		}
		fmt.Println(line)
	}
}

// lately returns how many requests a region has admitted in the last window.
func (w *world) lately(name string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.admitted[name] {
		if time.Since(at) < window {
			n++
		}
	}
	return n
}

// most returns the most that any window held, a tenth shorter: an answer takes time to arrive.
func (w *world) most() (most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Time
	for _, times := range w.admitted {
		all = append(all, times...)
	}
	slices.SortFunc(all, time.Time.Compare)
	for first, last := 0, 0; last < len(all); last++ {
		for all[last].Sub(all[first]) > window*9/10 {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
