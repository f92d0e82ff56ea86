package agent

import (
	"context"
	"errors"
	"os"

	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/linelog"
	"github.com/phos-gpu/phos/cluster/linelog/answer"
)

// Answer implements link.Host.
func (a *Agent) Answer(ctx context.Context, ask *api.Ask, send func(*api.AnswerPart) error) error {
	b := &batch{number: ask.GetQuestion(), send: send}
	if ask.GetUsage() != nil {
		return a.sendUsage(ctx, ask.GetUsage(), b)
	}
	if ask.GetTraining() != nil {
		return a.sendTraining(ask.GetTraining(), b)
	}
	return a.readLog(ctx, ask.GetLogs(), b)
}

// sendTraining sends what a training has said of itself here; nothing, if it has said nothing.
func (a *Agent) sendTraining(q *api.TrainingQuestion, to *batch) error {
	status, age := a.trainings.Find(q.GetLaunch())
	if status == nil {
		return nil
	}
	if q.GetAgeOnly() {
		status = nil
	}
	return to.send(&api.AnswerPart{
		Question: to.number, Training: &api.TrainingStatus{Status: status, AgeMs: age.Milliseconds()},
	})
}

// batch collects lines into messages.
type batch struct {
	number uint64
	send   func(*api.AnswerPart) error
	lines  []*api.LogLine
	bytes  int
}

// Limits of one message.
const (
	batchLines = 500
	batchBytes = 256 << 10
)

// add adds a line, and sends what there is if that is enough.
func (b *batch) add(line *api.LogLine) error {
	b.lines = append(b.lines, line)
	b.bytes += len(line.GetText())
	if len(b.lines) < batchLines && b.bytes < batchBytes {
		return nil
	}
	return b.flush()
}

// flush sends what there is.
func (b *batch) flush() error {
	if len(b.lines) == 0 {
		return nil
	}
	part := &api.AnswerPart{Question: b.number, Lines: b.lines}
	b.lines, b.bytes = nil, 0
	return b.send(part)
}

// readLog sends the log of an attempt.
func (a *Agent) readLog(ctx context.Context, q *api.LogQuestion, to *batch) error {
	if q == nil {
		return errors.New("this version of the agent does not know the question")
	}
	key := keyOf(q.GetAttempt())
	if err := a.awaitLog(ctx, key, q.GetFollow()); err != nil {
		return err
	}
	// The log is that of the supervisor, whether it lives or not.
	reader := linelog.Open(a.logDirectory(key), linelog.Position{})
	defer reader.Close()
	p := &answer.Picker{Question: q, Send: to.add}
	if err := p.TakeAll(reader); err != nil {
		return err
	}
	if err := to.flush(); err != nil || !q.GetFollow() || reader.Ended() {
		return err
	}
	return reader.Follow(ctx, func(entry linelog.Entry) error {
		if err := p.Take(entry); err != nil {
			return err
		}
		return to.flush()
	})
}

// logDirectory returns where the log of an attempt is.
func (a *Agent) logDirectory(key supervisor.Key) string {
	return a.path("attempts", key.String(), "log")
}

// awaitLog waits until an attempt that is prepared has a log, if it is to be followed.
func (a *Agent) awaitLog(ctx context.Context, key supervisor.Key, follow bool) error {
	if t := a.attempts.find(key); t != nil && follow {
		select {
		case <-t.prepared:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err := os.Stat(a.logDirectory(key))
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("there is no log: it was not started, or its log was removed")
	}
	return err
}
