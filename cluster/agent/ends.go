package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/linelog"
	"github.com/phos-gpu/phos/internal/ticks"
)

// How the ends of logs are sent to the leader.
const (
	endsEvery = 5 * time.Second
	// endBytes is the most of a log that is sent at a time. What a log has grown beyond that is not
	// sent.
	endBytes = 256 << 10
)

// logEnds sends the ends of logs to a leader, so that they can be read when the node is gone.
type logEnds struct {
	agent *Agent
	// next has the offsets up to which this leader has the logs.
	next map[supervisor.Key]int64
}

// sendEnds sends what logs have grown, until the stream ends.
func (a *Agent) sendEnds(ctx context.Context, client api.AgentsClient) {
	ends := &logEnds{agent: a, next: map[supervisor.Key]int64{}}
	for range ticks.Every(ctx, endsEvery) {
		ends.sendAll(ctx, client)
	}
}

// sendAll looks at all logs of the node.
func (l *logEnds) sendAll(ctx context.Context, client api.AgentsClient) {
	keys, err := supervisor.List(l.agent.path("attempts"))
	if err != nil {
		l.agent.config.Log.Warn("ends of logs are not sent", "error", err)
		return
	}
	l.agent.sent.Range(func(key, _ any) bool {
		if !slices.Contains(keys, key.(supervisor.Key)) {
			l.agent.sent.Delete(key)
		}
		return true
	})
	for _, key := range keys {
		if _, whole := l.agent.sent.Load(key); whole {
			continue
		}
		if err := l.send(ctx, client, key); err != nil && ctx.Err() == nil {
			l.agent.config.Log.Warn("end of a log is not sent", "attempt", key, "error", api.FromStatus(err))
		}
	}
}

// send sends what is new of a log. One whose attempt has ended, or that the leader does not want,
// is not looked at again.
func (l *logEnds) send(ctx context.Context, client api.AgentsClient, key supervisor.Key) error {
	ended := l.agent.attempts.find(key) == nil
	for {
		offset, records, err := linelog.End(l.agent.logDirectory(key), l.next[key], endBytes)
		if err != nil { // nothing new, or no log yet
			if ended {
				l.agent.sent.Store(key, true)
			}
			return nil
		}
		reply, err := client.KeepLog(ctx, &api.KeepLogRequest{
			Attempt: &api.Attempt{Launch: key.Launch, Replica: uint32(key.Replica), Attempt: uint32(key.Attempt)},
			Offset:  offset, Records: records,
		})
		if err != nil {
			if refused := api.FromStatus(err); errors.Is(refused, api.ErrNotFound) || errors.Is(refused, api.ErrInvalid) {
				l.agent.sent.Store(key, true)
			}
			return err
		}
		if reply.GetNext() <= l.next[key] {
			return errors.New("the leader takes no more of it")
		}
		l.next[key] = reply.GetNext()
	}
}
