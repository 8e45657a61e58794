package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// webJob is the job of a worker that is an HTTP server.
type webJob struct {
	Site     string
	Requests int // an hour, of each client
}

// cpuTime holds how long processors have worked for a process, in its own code and in the kernel for it.
type cpuTime struct{ User, System time.Duration }

// less returns the time since before.
func (c cpuTime) less(before cpuTime) cpuTime {
	return cpuTime{c.User - before.User, c.System - before.System}
}

// sum returns both parts.
func (c cpuTime) sum() time.Duration { return c.User + c.System }

// serve serves HTTP on a free port of 127.0.0.1 until the orders end. Its first answer is the address, and those to the
// orders are its cpuTime.
func (j webJob) serve(env Env, orders *json.Decoder, answers *json.Encoder) error {
	for _, s := range websites() {
		if s.name != j.Site {
			continue
		}
		rdb := redis.NewClient(&redis.Options{Addr: env.Redis[0]})
		handler, err := s.wrap(perHour(j.Requests), rdb, http.HandlerFunc(hello))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		go func() { _ = server.Serve(listener) }()
		for err = answers.Encode(listener.Addr().String()); err == nil; {
			var u syscall.Rusage
			err = errors.Join(orders.Decode(new(order)), syscall.Getrusage(syscall.RUSAGE_SELF, &u))
			if err == nil {
				err = answers.Encode(cpuTime{time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())})
			}
		}
		return unlessEOF(err)
	}
	return fmt.Errorf("no website %q", j.Site)
}

// site is a website that a process of its own serves.
type site struct {
	website
	url     string
	limit   int // requests an hour of a client
	process *worker
	client  *http.Client
}

// openSite starts the process of a website, with a limit of requests an hour for each client.
func openSite(s website, requests int, env Env) (*site, error) {
	process, err := startWorker(job{Web: &webJob{s.name, requests}, Env: env})
	if err != nil {
		return nil, err
	}
	var at string
	if err := process.answers.Decode(&at); err != nil {
		process.stop()
		return nil, fmt.Errorf("%s: its server has ended: %w", s.name, err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: visitors}
	return &site{s, "http://" + at + "/", requests, process, &http.Client{Transport: transport}}, nil
}

// close ends the process and waits for its end.
func (s *site) close() {
	s.client.CloseIdleConnections()
	s.process.stop()
}

// webClients is how many clients there are, and visitors the number of connections of a census.
const webClients, visitors = 1000, 16

// census sends a request of each client, and returns how many requests of all clients the limiter says it has counted,
// these among them. It returns an error if one of the responses is not the expected one.
func (s *site) census() (counted int64, err error) {
	var group sync.WaitGroup
	var sums [visitors]int64
	var errs [visitors]error
	for v := range visitors {
		group.Go(func() {
			for i := v; i < webClients && errs[v] == nil; i += visitors {
				var used int64
				used, errs[v] = s.visit(i)
				sums[v] += used
			}
		})
	}
	group.Wait()
	s.client.CloseIdleConnections()
	for _, sum := range sums {
		counted += sum
	}
	return counted, errors.Join(errs[:]...)
}

// visit sends a request of client i, and returns how many of its requests have been counted by what the response says.
// It is 0 where no field says it.
func (s *site) visit(i int) (used int64, err error) {
	r, err := http.NewRequest(http.MethodGet, s.url, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set(clientField, webClient(i))
	res, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	body, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return 0, err
	}
	if res.StatusCode != http.StatusOK || string(body) != greeting {
		return 0, fmt.Errorf("the response is %s, %q: want 200, %q", res.Status, body, greeting)
	}
	if s.field == "" {
		return 0, nil
	}
	remaining, err := strconv.Atoi(res.Header.Get(s.field))
	if err != nil || remaining < 0 || remaining >= s.limit {
		return 0, fmt.Errorf("%s is %q: want a number from 0 to %d", s.field, res.Header.Get(s.field), s.limit-1)
	}
	return int64(s.limit - remaining), nil
}

// webClient returns the name of client i, as wrk.lua does.
func webClient(i int) string { return "client-" + strconv.Itoa(i) }
