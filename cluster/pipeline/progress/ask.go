package progress

import (
	"bufio"
	"context"
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
	if _, err := io.WriteString(conn, "{\"status\": true}\n"); err != nil {
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
