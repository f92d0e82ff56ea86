package progress

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// askTime is how long a training may take to answer.
const askTime = 10 * time.Second

// Ask asks a training how it is, at the door of one of its ranks: HOST:PORT.
func Ask(ctx context.Context, door string) ([]byte, error) {
	return say(ctx, door, map[string]any{"status": true})
}

// Lose tells a training that a rank is lost though it may live: a verdict of something that watches
// machines. The others go on without it, and it ends when it hears of that.
func Lose(ctx context.Context, door string, rank int, why string) error {
	reply, err := say(ctx, door, map[string]any{"lose": rank, "why": why})
	if err != nil {
		return fmt.Errorf("rank %d was not declared lost: %w", rank, err)
	}
	var done struct{ Lost *int }
	if json.Unmarshal(reply, &done) != nil || done.Lost == nil || *done.Lost != rank {
		return fmt.Errorf("what listens at %s does not answer as a training does", door)
	}
	return nil
}

// say says something at a door, and returns the line that is answered.
func say(ctx context.Context, door string, what map[string]any) ([]byte, error) {
	text, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", door)
	if err != nil {
		return nil, fmt.Errorf("no training answers at %s: %w", door, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write(append(text, '\n')); err != nil {
		return nil, fmt.Errorf("no training answers at %s: %w", door, err)
	}
	line, err := bufio.NewReader(io.LimitReader(conn, MaxBytes+1)).ReadBytes('\n')
	switch {
	case len(line) > MaxBytes:
		return nil, fmt.Errorf("the training at %s says more than %d bytes of itself", door, MaxBytes)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("what listens at %s does not answer as a training does", door)
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("what listens at %s is no training, or one that still begins", door)
	case err != nil:
		return nil, fmt.Errorf("the training at %s: %w", door, err)
	}
	return line, nil
}
