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

// order is one order to a worker, which gets many of them.
type order struct {
	For  time.Duration // work for about this long, if N is 0
	N    int           // do this number of operations
	Heap bool          // and answer how much memory is in use
}

// answer is the answer to one order.
type answer struct {
	Sample sample
	Heap   uint64 // bytes in use, minus the bytes in use before the contestant was made
	Error  string
}

// RunWorker must be called first in main. If this process was started as a worker,
// RunWorker carries out the worker's orders, ends the process and does not return.
func RunWorker() {
	text, ok := os.LookupEnv(workerVariable)
	if !ok {
		return
	}
	if err := serve(text, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve carries out orders, which it reads as JSON, until there are no more. text
// is the job as JSON. A worker that is an HTTP server gets no orders.
func serve(text string, orders io.Reader, answers io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	if j.Web != nil {
		return j.Web.serve(j.Env, orders, answers)
	}
	contestant, err := find(j)
	if err != nil {
		return err
	}
	d := duty{job: j, latency: contestant.Latency, heapBefore: heap()}
	if d.work, err = contestant.Open(j.Env); err != nil {
		return fmt.Errorf("%s, %s: %w", j.Race, j.Contestant, err)
	}
	in, out := json.NewDecoder(orders), json.NewEncoder(answers)
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := d.carryOut(o)
		if err != nil {
			return err
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

// duty is the state of a worker.
type duty struct {
	job        job
	work       Work
	latency    *latency // of the contestant; may be nil
	heapBefore uint64   // bytes in use before the contestant was made
	ns         float64  // per operation, in the last sample; 0 before the first one
}

// carryOut does the work of one order.
func (d *duty) carryOut(o order) (a answer, err error) {
	if o.N == 0 && d.ns == 0 {
		first, err := timed(d.work, 500)
		if err != nil {
			return a, fmt.Errorf("%s, %s: %w", d.job.Race, d.job.Contestant, err)
		}
		d.ns = first.NS
	}
	n := o.N
	if n == 0 {
		n = max(1, int(float64(o.For)/d.ns))
	}
	if a.Sample, err = timed(d.work, n); err != nil {
		a.Error = fmt.Sprintf("%s, %s: %v", d.job.Race, d.job.Contestant, err)
	}
	if d.latency != nil {
		a.Sample.P99 = d.latency.p99()
	}
	d.ns = a.Sample.NS
	if o.Heap {
		if now := heap(); now > d.heapBefore {
			a.Heap = now - d.heapBefore
		}
	}
	runtime.KeepAlive(d.work) // heap counts the contestant's memory
	return a, nil
}

// timed does n operations and returns their cost.
func timed(work Work, n int) (sample, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := work(n)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	per := float64(n)
	return sample{
		NS:     float64(took) / per,
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / per,
		Allocs: float64(after.Mallocs-before.Mallocs) / per,
	}, err
}

// heap returns the bytes of the heap that are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // frees the memory that finalizers and pools released in the first run
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// worker is a process that runs one contestant. It ends when its input ends, so it
// cannot outlive this process.
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
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &worker{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}, nil
}

// ask gives an order to the worker and waits for the answer.
func (w *worker) ask(o order) (answer, error) {
	var a answer
	if err := w.orders.Encode(o); err != nil {
		return a, fmt.Errorf("a worker has ended: %w", err)
	}
	if err := w.answers.Decode(&a); err != nil {
		return a, fmt.Errorf("a worker has ended: %w", err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// stop ends the process and waits for its end. A nil worker is allowed.
func (w *worker) stop() {
	if w == nil {
		return
	}
	_ = w.input.Close()
	_ = w.cmd.Wait()
}
