package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// steps are those of replacing the CA, by the words of requests.
var steps = map[string]func(authority.Ring) (authority.Ring, error){
	"prepare": func(r authority.Ring) (authority.Ring, error) { return r.Prepare(time.Now()) },
	"switch":  authority.Ring.Switch,
	"finish":  authority.Ring.Finish,
	"abort":   authority.Ring.Abort,
}

// ReplaceCA makes a step of replacing the CA, which all controllers learn from the store; an empty
// one only shows it.
func (m *Members) ReplaceCA(ctx context.Context, step string) (*api.ReplaceCAReply, error) {
	object, err := m.store.Get(ctx, record.CAKey)
	if err != nil {
		return nil, err
	}
	ring, err := authority.UnmarshalRing(object.Value)
	if err != nil {
		return nil, err
	}
	if step != "" {
		if ring, err = m.makeStep(ctx, step, ring, object.Revision); err != nil {
			return nil, err
		}
	}
	reply := &api.ReplaceCAReply{Step: string(ring.Step())}
	for _, each := range ring.Bundle().Fingerprints() {
		reply.Trusted = append(reply.Trusted, each.String())
	}
	return reply, nil
}

// makeStep makes a step and writes what it has made.
func (m *Members) makeStep(
	ctx context.Context, step string, ring authority.Ring, before store.Revision,
) (authority.Ring, error) {
	change, known := steps[step]
	if !known {
		return ring, api.Invalid(fmt.Sprintf("step is %.40q: want prepare, switch, finish or abort", step))
	}
	next, err := change(ring)
	if errors.Is(err, authority.ErrStep) {
		return ring, &api.Error{Text: err.Error(), Err: api.ErrRefused}
	}
	if err != nil {
		return ring, err
	}
	text, err := next.Marshal()
	if err != nil {
		return ring, err
	}
	_, err = m.store.Put(ctx, store.Write{Key: record.CAKey, Value: text, Replaces: before})
	if errors.Is(err, store.ErrConflict) {
		return ring, &api.Error{Text: "another request has changed the CA at this time: look at it again", Err: api.ErrRefused}
	}
	if err == nil {
		m.setRing(next)
	}
	return next, err
}

// setRing makes a ring the one that is used.
func (m *Members) setRing(ring authority.Ring) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if string(m.ring.Bundle().PEM()) == string(ring.Bundle().PEM()) {
		return
	}
	m.ring = ring
	close(m.replaced)
	m.replaced = make(chan struct{})
}

// other returns a channel that is closed when there is another ring.
func (m *Members) other() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.replaced
}

// takeRing makes the ring of the store the one that is used. A damaged one changes nothing.
func (m *Members) takeRing(objects []store.Object) {
	for _, each := range objects {
		if ring, err := authority.UnmarshalRing(each.Value); err == nil && ring.Bundle().Cluster() == m.id {
			m.setRing(ring)
		}
	}
}
