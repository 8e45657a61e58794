package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// workerVariable holds the job of a process that is a worker.
const workerVariable = "SASH_BENCH_WORKER"

// job is the work of a worker.
type job struct {
	Race, Contestant string
	Web              *webJob // set for a worker that is an HTTP server
	Env              Env
}

// order is one order to a worker, which gets many of them. A contestant works for about so long and answers with a
// sample, or with an error. An HTTP server answers with its cpuTime.
type order struct{ For time.Duration }

// RunWorker must be called first in main. If this process was started as a worker, RunWorker carries out the worker's
// orders, ends the process and does not return.
func RunWorker() {
	text, ok := os.LookupEnv(workerVariable)
	if !ok {
		return
	}
	if err := serve(text, json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve carries out orders until there are no more. text is the job as JSON.
func serve(text string, orders *json.Decoder, answers *json.Encoder) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if j.Web != nil {
		return j.Web.serve(j.Env, orders, answers)
	}
	c, err := find(j)
	if err != nil {
		return err
	}
	w, err := c.open(j.Env)
	if err == nil {
		err = carryOut(w, orders, answers)
	}
	if err != nil {
		err = fmt.Errorf("%s, %s: %w", j.Race, j.Contestant, err)
	}
	return err
}

// carryOut answers each order with a sample.
func carryOut(w work, orders *json.Decoder, answers *json.Encoder) error {
	first, err := timed(w, 500)
	for ns := first.NS; err == nil; {
		var o order
		if err := orders.Decode(&o); err != nil {
			return unlessEOF(err)
		}
		var s sample
		if s, err = timed(w, max(1, int(float64(o.For)/ns))); err == nil {
			ns, err = s.NS, answers.Encode(s)
		}
	}
	return err
}

// unlessEOF returns err, or nil at the end of a file.
func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// timed does n operations and returns their cost.
func timed(w work, n int) (s sample, err error) {
	if w.facts != nil { // others have had turns since the last call
		if _, err = w.facts(); err != nil {
			return s, err
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	if err = w.do(n); err != nil {
		return s, err
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	s = sample{
		NS:     float64(took) / float64(n),
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
		Allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
	}
	if w.facts != nil {
		s.Facts, err = w.facts()
	}
	return s, err
}

// worker is a process that runs one contestant. It ends when its input ends, so it cannot outlive this process.
type worker struct {
	cmd     *exec.Cmd
	input   io.Closer
	orders  *json.Encoder
	answers *json.Decoder
}

// startWorker starts a worker for a job.
func startWorker(j job) (*worker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &worker{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}, cmd.Start()
}

// ask gives an order to the worker and waits for the answer. The worker says on its standard error why it has ended.
func (w *worker) ask(o order, answer any) error {
	if err := errors.Join(w.orders.Encode(o), w.answers.Decode(answer)); err != nil {
		return fmt.Errorf("a worker has ended: %w", err)
	}
	return nil
}

// stop ends the process and waits for its end. A nil worker is allowed.
func (w *worker) stop() {
	if w != nil {
		_ = w.input.Close()
		_ = w.cmd.Wait()
	}
}
