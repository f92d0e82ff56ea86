package control

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/phos-gpu/phos/cluster/control/clock"
	"github.com/phos-gpu/phos/cluster/control/mirror"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// load gets all records: those of a mirror, or else those of the store. Nodes count as renewed now:
// this controller was away, so it cannot know since when they do not answer.
func (l *Leader) load(ctx context.Context, from *mirror.Mirror) error {
	object, err := l.loadCluster(ctx)
	if err != nil {
		return err
	}
	l.clock = clock.New(l.cluster.Created)
	records, complete := l.mirrored(ctx, from, object)
	if !complete {
		if records, err = readAll(ctx, l.store); err != nil {
			return err
		}
	}
	for _, each := range records.Nodes {
		l.nodes[each.Value.Name] = &node{Node: each.Value, revision: each.Revision, renewed: l.clock.Boot()}
	}
	for _, each := range records.Launches {
		l.keep(&entry{Launch: each.Value, revision: each.Revision})
	}
	if err := l.loadQuotas(ctx); err != nil {
		return err
	}
	return l.startQueues()
}

// loadCluster reads the record of the cluster.
func (l *Leader) loadCluster(ctx context.Context) (store.Object, error) {
	object, err := l.store.Get(ctx, record.ClusterKey)
	if errors.Is(err, store.ErrNotFound) {
		return object, errors.New("the store has no cluster yet: create one with phos-controller init")
	}
	if err != nil {
		return object, err
	}
	l.cluster, err = record.DecodeCluster(object.Value)
	return object, err
}

// mirrored takes the copy of a mirror. The record of the cluster is written with the leader's
// epoch: no leader before can write after that, and a mirror that has seen it has all there is.
func (l *Leader) mirrored(ctx context.Context, from *mirror.Mirror, cluster store.Object) (mirror.Records, bool) {
	if from == nil || !from.Ready() {
		return mirror.Records{}, false
	}
	last, err := l.store.Put(ctx, store.Write{
		Key: cluster.Key, Value: cluster.Value, Replaces: cluster.Revision, Epoch: l.Epoch(),
	})
	if err != nil {
		l.log.Warn("records are read, not taken from the copy", "error", err)
		return mirror.Records{}, false
	}
	return from.Take(ctx, last)
}

// readAll reads all records from the store.
func readAll(ctx context.Context, from store.Store) (r mirror.Records, err error) {
	if r.Nodes, err = list(ctx, from, record.NodePrefix, record.DecodeNode); err != nil {
		return r, err
	}
	r.Launches, err = list(ctx, from, record.LaunchPrefix, record.DecodeLaunch)
	return r, err
}

// list reads the records with a prefix.
func list[T any](
	ctx context.Context, objects store.Store, prefix string, decode func([]byte) (T, error),
) ([]mirror.Kept[T], error) {
	found, _, err := objects.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	all := make([]mirror.Kept[T], len(found))
	var decoding errgroup.Group
	decoding.SetLimit(runtime.GOMAXPROCS(0))
	for i, object := range found {
		decoding.Go(func() error {
			value, err := decode(object.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", object.Key, err)
			}
			all[i] = mirror.Kept[T]{Value: value, Revision: object.Revision}
			return nil
		})
	}
	return all, decoding.Wait()
}

// keep adds a launch to the tables.
func (l *Leader) keep(e *entry) {
	l.launches[e.ID] = e
	l.numbers[e.Number] = e
	if e.Request != "" {
		l.requests[e.request()] = append(l.requests[e.request()], e)
	}
	if len(e.Images) > 0 {
		l.imaged[e] = struct{}{}
	}
	if e.State.Phase == launch.Waiting {
		l.waiting[e] = struct{}{}
	}
	l.latest = max(l.latest, e.Number)
	e.told = e.State.Orders()
}

// writers is how many records are written at once. The store groups what comes together.
const writers = 64

// write puts all changed records into the store. It returns an error only if this controller must
// stop to lead: then the next leader goes on from what is in the store. Nodes renew their leases
// meanwhile.
func (l *Leader) write(ctx context.Context) error {
	written := make(chan error, 1)
	go func() { written <- l.putChanged(ctx) }()
	for {
		select {
		case err := <-written:
			if err == nil {
				l.publishChanged()
			}
			return err
		case <-l.renewals.Ready():
			l.renewAll()
		}
	}
}

// putChanged writes and removes records, until the store has done all of it.
func (l *Leader) putChanged(ctx context.Context) error {
	l.removeForgotten(ctx)
	if err := l.quotas.write(ctx, l); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for e := range l.changedLaunches {
		group.Go(func() error { return l.records.Put(ctx, record.LaunchKey(e.ID), e.Encode(), &e.revision) })
	}
	for n := range l.changedNodes {
		group.Go(func() error { return l.records.Put(ctx, record.NodeKey(n.Name), n.Encode(), &n.revision) })
	}
	return group.Wait()
}

// publishChanged tells watchers of the records that the store has now.
func (l *Leader) publishChanged() {
	for e := range l.changedLaunches {
		l.published(e)
	}
	for n := range l.changedNodes {
		for w := range l.watchers {
			w.NodeChanged(&n.Node)
		}
	}
	clear(l.changedLaunches)
	clear(l.changedNodes)
}

// removeForgotten removes the records of launches that ended long ago, and of removed nodes.
func (l *Leader) removeForgotten(ctx context.Context) {
	for _, e := range l.forgotten {
		l.records.Delete(ctx, record.LaunchKey(e.ID), e.revision)
		l.settings.Forgotten(e.ID)
	}
	for _, n := range l.removed {
		l.records.Delete(ctx, record.NodeKey(n.Name), n.revision)
	}
	l.forgotten, l.removed = nil, nil
}
