package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// webJob is the job of a worker that is an HTTP server.
type webJob struct {
	Site     string
	Requests int // an hour, of each client
}

// webAddress is the message of such a worker when it listens.
type webAddress struct{ Address string }

// serve serves HTTP on a free port of 127.0.0.1 until input ends. To each order it answers with its cpuTime.
func (j webJob) serve(env Env, input io.Reader, output io.Writer) error {
	for _, s := range websites() {
		if s.name != j.Site {
			continue
		}
		handler, err := s.wrap(load{requests: j.Requests}, env, http.HandlerFunc(hello))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		ended := make(chan error, 2)
		go func() { ended <- server.Serve(listener) }()
		answers := json.NewEncoder(output)
		if err := answers.Encode(webAddress{listener.Addr().String()}); err != nil {
			return err
		}
		go func() { ended <- tellCPU(json.NewDecoder(input), answers) }()
		return <-ended
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

// openSite starts the process of a website, with a limit of requests an hour for each
// client.
func openSite(s website, requests int, env Env) (*site, error) {
	process, err := startWorker(job{Web: &webJob{s.name, requests}, Env: env})
	if err != nil {
		return nil, err
	}
	var at webAddress
	if err := process.answers.Decode(&at); err != nil {
		process.stop()
		return nil, fmt.Errorf("%s: its server has ended: %w", s.name, err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: visitors}
	return &site{s, "http://" + at.Address + "/", requests, process, &http.Client{Transport: transport}}, nil
}

// close ends the process and waits for its end. A nil site is allowed.
func (s *site) close() {
	if s == nil {
		return
	}
	s.client.CloseIdleConnections()
	s.process.stop()
}

// visitors is the number of connections of a census.
const visitors = 16

// census sends a request of each client, and returns how many requests of all clients
// the limiter says it has counted, these among them. It returns an error if one of the
// responses is not the expected one.
func (s *site) census() (counted int64, err error) {
	var (
		wg   sync.WaitGroup
		sums [visitors]int64
		errs [visitors]error
	)
	for v := range visitors {
		wg.Go(func() {
			for i := v; i < remoteClients && errs[v] == nil; i += visitors {
				var used int64
				used, errs[v] = s.visit(i)
				sums[v] += used
			}
		})
	}
	wg.Wait()
	s.client.CloseIdleConnections()
	for _, sum := range sums {
		counted += sum
	}
	return counted, cmp.Or(errs[:]...)
}

// visit sends a request of client i, and returns how many of its requests have been
// counted by what the response says. It is 0 where no field says it.
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
