package link

import (
	"context"

	"github.com/phos-gpu/phos/cluster/api"
)

// asked begins to answer a question of the leader, or stops.
func (s *stream) asked(ctx context.Context, ask *api.Ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ask.GetCancel() {
		if cancel := s.asks[ask.GetQuestion()]; cancel != nil {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	s.asks[ask.GetQuestion()] = cancel
	go func() {
		defer cancel()
		if ask.GetExec() != nil {
			s.link.host.Exec(ctx, s.client, ask)
		} else {
			s.answer(ctx, ask)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.asks, ask.GetQuestion())
	}()
}

// answer answers a question. If the leader is gone, the answer is of no use.
func (s *stream) answer(ctx context.Context, ask *api.Ask) {
	parts, err := s.client.Answer(ctx)
	if err != nil {
		return
	}
	// A log without lines is an answer, too.
	if err := parts.Send(&api.AnswerPart{Question: ask.GetQuestion()}); err != nil {
		return
	}
	sent := false
	err = s.link.host.Answer(ctx, ask, func(part *api.AnswerPart) error {
		sent = true
		return parts.Send(part)
	})
	last := &api.AnswerPart{Question: ask.GetQuestion()}
	if err != nil {
		last.Error = err.Error()
	}
	// Without any part, the leader would not know which question has its answer.
	if ctx.Err() == nil && (err != nil || !sent) {
		_ = parts.Send(last)
	}
	_, _ = parts.CloseAndRecv()
}
