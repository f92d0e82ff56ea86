package scheduler

import (
	"math"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// account is what a user has, together with all below him. It counts in whole numbers wherever it
// can, so that giving back what was taken always ends at nothing.
type account struct {
	parent           *account
	running, waiting int
	demand           int
	shares           int // thousandths of GPUs that are held
	limit            int // that may be
	memory           int64
	service          float64 // GPU-seconds until at
	at               time.Duration
}

// account finds a user's account, or opens it. "a/b" counts in "a" too.
func (e *Engine) account(name string) *account {
	if a := e.accounts[name]; a != nil {
		return a
	}
	a := &account{limit: math.MaxInt}
	if most := e.capOf(name); most != Uncapped {
		a.limit = most * wholeGPU
	}
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		a.parent = e.account(name[:i])
	}
	e.accounts[name] = a
	return a
}

// allows reports whether a job may have so many GPUs in place of those that it has.
func (a *account) allows(j *Job, gpus int) bool {
	if !j.uncounted {
		gpus -= len(j.placement)
	}
	for ; a != nil; a = a.parent {
		if a.shares+gpus*j.facts.Share > a.limit {
			return false
		}
	}
	return true
}

// adjustHeld counts so many GPUs of a job as held, or as not held, for as long as somebody tries out what
// would be allowed.
func (a *account) adjustHeld(j *Job, gpus int) {
	for ; a != nil; a = a.parent {
		a.shares += gpus * j.facts.Share
	}
}

// initialGPUs is how many GPUs a job is to have where nobody says otherwise. An elastic job whose owner
// may never hold as many as it asks for has those that he may: else it would wait for ever.
func (a *account) initialGPUs(f *cluster.Job) int {
	gpus, share := f.GPUs, f.Share
	if f.MaxGPUs == 0 || share != wholeGPU {
		return gpus
	}
	for ; a != nil; a = a.parent {
		gpus = min(gpus, a.limit/wholeGPU)
	}
	if gpus < max(1, f.MinGPUs) {
		return f.GPUs
	}
	return gpus
}

// Usage is what the account holds at a time.
func (a *account) usage(now time.Duration) Usage {
	if a == nil {
		return Usage{}
	}
	return Usage{
		Running: a.running, Waiting: a.waiting, Demand: a.demand,
		Amount:  Amount{GPUs: float64(a.shares) / wholeGPU, MemoryBytes: a.memory},
		Service: a.service + float64(a.shares)/wholeGPU*(now-a.at).Seconds(),
	}
}

// countRun enters that a job got its GPUs, or takes out that it had them.
func (a *account) countRun(j *Job, sign int, now time.Duration) {
	for ; a != nil; a = a.parent {
		a.service = a.usage(now).Service
		a.at = now
		a.running += sign
		a.shares += sign * len(j.placement) * j.facts.Share
		a.memory += int64(sign*len(j.placement)) * j.facts.GPUMemoryBytes
	}
}

// countWaiting enters that a job waits, or takes that out.
func (a *account) countWaiting(sign int) {
	for ; a != nil; a = a.parent {
		a.waiting += sign
	}
}

// addDemand enters what an admitted job asks for, or takes it out.
func (a *account) addDemand(gpus int) {
	for ; a != nil; a = a.parent {
		a.demand += gpus
	}
}

// Amount is so much of a cluster.
type Amount struct {
	GPUs        float64 // shares of a GPU count as such
	MemoryBytes int64   // on GPUs; of jobs, what their owners say
}

func (a *Amount) add(b Amount, sign int) {
	a.GPUs += float64(sign) * b.GPUs
	a.MemoryBytes += int64(sign) * b.MemoryBytes
}

// capacity is what a node has.
func capacity(node *cluster.Node) Amount {
	return Amount{float64(node.GPUs), int64(node.GPUs) * node.GPUMemoryBytes}
}

// holds is what a job has.
func (j *Job) holds() Amount { return j.amount(len(j.placement)) }

// amount is what so many GPUs come to.
func (j *Job) amount(gpus int) Amount {
	return Amount{float64(gpus*j.facts.Share) / cluster.WholeGPU, int64(gpus) * j.facts.GPUMemoryBytes}
}
