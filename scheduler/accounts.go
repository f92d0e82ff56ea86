package scheduler

import (
	"math"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// account is the usage of a user, including all users below it. It counts in integers where
// possible, so that releasing everything ends at exactly zero.
type account struct {
	parent           *account
	running, waiting int
	demand           int
	shares           int // thousandths of GPUs in use
	limit            int // the user's cap, in thousandths of GPUs
	memory           int64
	service          float64 // GPU-seconds until `at`
	at               time.Duration
}

// account returns a user's account, creating it if necessary. "a/b" counts in "a" too.
func (e *Engine) account(name string) *account {
	if a := e.accounts[name]; a != nil {
		return a
	}
	a := &account{limit: math.MaxInt}
	if most := e.policies.capOf(name); most != Uncapped {
		a.limit = most * wholeGPU
	}
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		a.parent = e.account(name[:i])
	}
	e.accounts[name] = a
	return a
}

// allows reports whether the caps permit the job to have the given number of GPUs in place of its
// current ones.
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

// adjustHeld adds GPUs of a job to the account (or removes them) while allocations are tried out.
func (a *account) adjustHeld(j *Job, gpus int) {
	for ; a != nil; a = a.parent {
		a.shares += gpus * j.facts.Share
	}
}

// capOf returns a user's cap in GPUs.
func (p *Policies) capOf(name string) int {
	if most, capped := p.Caps[name]; capped {
		return most
	}
	return Uncapped
}

// initialGPUs returns a job's allocation unless an Allocator decides otherwise. An elastic job that
// asks for more than its owner's cap gets the cap; otherwise it would wait forever.
func (p *Policies) initialGPUs(f *cluster.Job) int {
	gpus := f.GPUs
	if f.MaxGPUs == 0 || f.Share != wholeGPU {
		return gpus
	}
	for name := f.User; ; name = name[:strings.LastIndexByte(name, '/')] {
		gpus = min(gpus, p.capOf(name))
		if strings.LastIndexByte(name, '/') <= 0 {
			break
		}
	}
	if gpus < max(1, f.MinGPUs) {
		return f.GPUs
	}
	return gpus
}

// usage returns the account's state at a time.
func (a *account) usage(now time.Duration) Usage {
	if a == nil {
		return Usage{}
	}
	return Usage{
		Running: a.running, Waiting: a.waiting, Demand: a.demand,
		Amount:  Amount{GPUs: float64(a.shares) / wholeGPU, MemoryBytes: a.memory},
		Service: a.serviceAt(now),
	}
}

// serviceAt returns the account's GPU-seconds until a time.
func (a *account) serviceAt(now time.Duration) float64 {
	return a.service + float64(a.shares)/wholeGPU*(now-a.at).Seconds()
}

// countRun adds or removes a job's GPUs.
func (a *account) countRun(j *Job, sign int, now time.Duration) {
	for ; a != nil; a = a.parent {
		if a.at != now {
			a.service, a.at = a.serviceAt(now), now
		}
		a.running += sign
		a.shares += sign * len(j.placement) * j.facts.Share
		a.memory += int64(sign*len(j.placement)) * j.facts.GPUMemoryBytes
	}
}

// countWaiting adds or removes a waiting job.
func (a *account) countWaiting(sign int) {
	for ; a != nil; a = a.parent {
		a.waiting += sign
	}
}

// addDemand adds what an admitted job asks for, or removes it.
func (a *account) addDemand(gpus int) {
	for ; a != nil; a = a.parent {
		a.demand += gpus
	}
}

// Amount is a part of a cluster.
type Amount struct {
	GPUs        float64 // a share of a GPU counts as that share
	MemoryBytes int64   // GPU memory; of jobs, as declared by their owners
}

func (a *Amount) add(b Amount, sign int) {
	a.GPUs += float64(sign) * b.GPUs
	a.MemoryBytes += int64(sign) * b.MemoryBytes
}

// capacity returns a node's resources.
func capacity(node *cluster.Node) Amount {
	return Amount{float64(node.GPUs), int64(node.GPUs) * node.GPUMemoryBytes}
}

// holds returns a job's current resources.
func (j *Job) holds() Amount { return j.amount(len(j.placement)) }

// amount returns the resources of a number of the job's GPUs.
func (j *Job) amount(gpus int) Amount {
	return Amount{float64(gpus*j.facts.Share) / cluster.WholeGPU, int64(gpus) * j.facts.GPUMemoryBytes}
}
