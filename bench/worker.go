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

// job is what a worker is started for.
type job struct {
	Race, Contestant string
	Env              Env
}

// order is what a worker is asked to do, again and again.
type order struct {
	For  time.Duration // work for about so long
	N    int           // or: do it so many times
	Heap bool          // and say how much memory is held
}

type answer struct {
	Sample sample
	Heap   uint64 // bytes alive, less those before the contestant was made
	Error  string
}

// RunWorker must be called first in main: if this process was started as a
// worker it is one from then on, and ends with it.
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

// serve does as it is ordered until nobody orders any more.
func serve(text string, orders io.Reader, answers io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	contestant, err := find(j)
	if err != nil {
		return err
	}
	before := heap()
	work, err := contestant.Open(j.Env)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", j.Race, j.Contestant, err)
	}
	in, out := json.NewDecoder(orders), json.NewEncoder(answers)
	ns := 0.0 // per operation, the last time
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a answer
		n := o.N
		if n == 0 && ns == 0 {
			first, err := timed(work, 500)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", j.Race, j.Contestant, err)
			}
			ns = first.NS
		}
		if n == 0 {
			n = max(1, int(float64(o.For)/ns))
		}
		s, err := timed(work, n)
		if err != nil {
			a.Error = fmt.Sprintf("%s, %s: %v", j.Race, j.Contestant, err)
		}
		a.Sample, ns = s, s.NS
		if o.Heap {
			if now := heap(); now > before {
				a.Heap = now - before
			}
		}
		if err := out.Encode(a); err != nil {
			return err
		}
		runtime.KeepAlive(work)
	}
}

// timed does the work and says what it took.
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

// heap returns the bytes that are alive.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// worker is a process that runs one contestant. It ends when its input does, so
// it cannot outlive this process.
type worker struct {
	cmd     *exec.Cmd
	input   io.Closer
	orders  *json.Encoder
	answers *json.Decoder
}

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

// ask gives an order and waits until it is carried out.
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

// stop ends the process and waits for it; nil is no worker.
func (w *worker) stop() {
	if w == nil {
		return
	}
	_ = w.input.Close()
	_ = w.cmd.Wait()
}
