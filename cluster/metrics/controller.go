package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phos-gpu/phos/cluster/api"
)

// Source returns the cluster at a glance, or an error if this controller does not lead.
type Source func(context.Context) (*api.StatusReply, error)

// Controller has the numbers of a controller.
type Controller struct {
	registry *prometheus.Registry
	source   Source
	waits    prometheus.Histogram
	attempts *prometheus.CounterVec
	requests *prometheus.HistogramVec
}

// NewController returns numbers that have counted nothing yet.
func NewController(version string, source Source) *Controller {
	c := &Controller{
		registry: newRegistry("controller", version), source: source,
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "phos_queue_wait_seconds", Help: "Time from the queue to the first process, of launches that were placed.",
			Buckets: prometheus.ExponentialBuckets(.01, 4, 12),
		}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "phos_scheduling_attempts_total", Help: "Decisions of the scheduler by what became of them: placed, refused " +
				"(the nodes had changed), preempted, kept (it could not be preempted).",
		}, []string{"result"}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "phos_store_txn_duration_seconds", Help: "Time of requests to the store, by request and result.",
			Buckets: prometheus.ExponentialBuckets(.0005, 4, 9),
		}, []string{"op", "result"}),
	}
	// Counters exist from the start: the increase of one that appears with the value 1 is unknown.
	for _, result := range Results {
		c.attempts.WithLabelValues(string(result))
	}
	c.registry.MustRegister(c.waits, c.attempts, c.requests, c)
	return c
}

// Registry has all numbers.
func (c *Controller) Registry() prometheus.Gatherer { return c.registry }

// Result is what became of a decision of the scheduler.
type Result string

// All results.
const (
	Placed    Result = "placed"
	Refused   Result = "refused"
	Preempted Result = "preempted"
	Kept      Result = "kept"
)

// Results are all of them.
var Results = []Result{Placed, Refused, Preempted, Kept}

// Attempted counts a decision of the scheduler.
func (c *Controller) Attempted(result Result) { c.attempts.WithLabelValues(string(result)).Inc() }

// Waited counts a launch that was queued for a time and then placed.
func (c *Controller) Waited(queued time.Duration) { c.waits.Observe(queued.Seconds()) }
