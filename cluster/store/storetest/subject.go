package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
)

// Subject is an implementation to be tested.
type Subject struct {
	// Open returns a function that opens a client of an empty store, and then more clients of the same
	// one, whose leaderships last for a time. All are closed when the test ends.
	Open func(t *testing.T) (client func(lease time.Duration) store.Store)
	// Compact forgets the changes up to a revision, of the store that a client is connected to.
	Compact func(t *testing.T, s store.Store, at store.Revision)
	// Cut breaks the connections of all clients once.
	Cut func(t *testing.T)
	// Lease is a short time for which a leadership lasts.
	Lease time.Duration
}

// long is a lease that does not end during a test, however long the machine stands still.
const long = time.Hour

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// Run tests an implementation. all asks for more of what is random or large.
func Run(t *testing.T, subject Subject, all bool) {
	for name, test := range map[string]func(*fixture){
		"a written object is read":                   writtenIsRead,
		"wrong keys are refused":                     wrongKeys,
		"writes replace the revision that they name": writesReplace,
		"objects are removed":                        objectsAreRemoved,
		"large values":                               largeValues,
		"a list has its prefix, in order":            listHasPrefix,
		"a list is of one revision":                  listIsOfOneRevision,
		"a list of many":                             listOfMany,
		"a watch sends each change once":             watchSendsEach,
		"a watch begins after a revision":            watchBegins,
		"a watch ends with its caller":               watchEnds,
		"a watch resumes":                            watchResumes,
		"a watch of a compacted revision":            watchOfCompacted,
		"a deletion at the compacted revision":       deletionAtCompacted,
		"there is no leader":                         noLeader,
		"one leads at a time":                        oneLeads,
		"a resigned leader writes nothing":           resignedWritesNothing,
		"a leader is deposed before it conflicts":    deposedFirst,
		"a leadership is renewed":                    leadershipIsRenewed,
		"a campaign is given up":                     campaignIsGivenUp,
		"a closed client":                            closedClient,
		"a context that has ended":                   endedContext,
		"counters lose nothing":                      countersLoseNothing,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			f := &fixture{T: t, Subject: subject, all: all, ctx: ctx}
			f.client = subject.Open(t)
			f.store = f.another()
			test(f)
		})
	}
}

// fixture is an empty store for one test.
type fixture struct {
	*testing.T
	Subject
	all    bool
	ctx    context.Context
	client func(lease time.Duration) store.Store
	store  store.Store
}

// another opens one more client.
func (f *fixture) another() store.Store { return f.client(long) }

// many returns a number that is smaller in a sample.
func (f *fixture) many(sample, all int) int {
	if f.all {
		return all
	}
	return sample
}
