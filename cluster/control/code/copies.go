package code

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/cluster/api"
)

// copyTime is how long one controller may take to get code from another one.
const copyTime = 2 * time.Minute

// Copies keeps code on several controllers, so that the next leader has it.
type Copies struct {
	*Store
	// Others returns where the other controllers are reached; Dial connects to one as a controller.
	Others func(ctx context.Context) ([]string, error)
	Dial   func(address string) (*grpc.ClientConn, error)
}

// Spread copies code to the other controllers. It returns when most controllers have it, this one
// counted, and goes on for the rest.
func (c *Copies) Spread(ctx context.Context, ref *api.CodeRef) error {
	others, err := c.Others(ctx)
	if err != nil {
		return err
	}
	results := make(chan error, len(others))
	for _, address := range others {
		go func() { results <- c.push(context.WithoutCancel(ctx), address, ref) }()
	}
	missing, failures := (len(others)+1)/2, []error(nil)
	for range others {
		if missing == 0 {
			return nil
		}
		select {
		case err := <-results:
			if err == nil {
				missing--
			}
			failures = append(failures, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if missing > 0 {
		return fmt.Errorf("%w: too few controllers keep the code: %w", api.ErrUnavailable, errors.Join(failures...))
	}
	return nil
}

// push sends code to another controller.
func (c *Copies) push(ctx context.Context, address string, ref *api.CodeRef) error {
	return c.ask(ctx, address, "send code to", func(ctx context.Context, conn *grpc.ClientConn) error {
		to, err := api.NewLaunchesClient(conn).SendCode(ctx)
		if err != nil {
			return err
		}
		if err := to.Send(&api.CodePart{Ref: ref}); err == nil {
			err = c.Send(ref, func(data []byte) error { return to.Send(&api.CodePart{Data: data}) })
			if err != nil && !errors.Is(err, io.EOF) { // after io.EOF the answer says why
				return err
			}
		}
		_, err = to.CloseAndRecv()
		return err
	})
}

// Fetch gets code that this controller lacks from one that has it.
func (c *Copies) Fetch(ctx context.Context, ref *api.CodeRef) error {
	if c.Has(ref) {
		return nil
	}
	others, err := c.Others(ctx)
	if err != nil {
		return err
	}
	failures := []error{fmt.Errorf("%w: code %.12x", api.ErrNotFound, ref.GetHash())}
	for _, address := range others {
		err := c.pull(ctx, address, ref)
		if err == nil {
			return nil
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// pull gets code from another controller.
func (c *Copies) pull(ctx context.Context, address string, ref *api.CodeRef) error {
	return c.ask(ctx, address, "get code of", func(ctx context.Context, conn *grpc.ClientConn) error {
		from, err := api.NewAgentsClient(conn).GetCode(ctx, ref)
		if err != nil {
			return err
		}
		return c.Receive(ref, func() ([]byte, error) {
			part, err := from.Recv()
			return part.GetData(), err
		})
	})
}

// ask connects to another controller for one copy. what says of it what is done, for errors.
func (c *Copies) ask(
	ctx context.Context, address, what string, do func(context.Context, *grpc.ClientConn) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	conn, err := c.Dial(address)
	if err != nil {
		return fmt.Errorf("connect to controller %s: %w", address, err)
	}
	defer conn.Close()
	if err := do(ctx, conn); err != nil {
		return fmt.Errorf("%s controller %s: %w", what, address, api.FromStatus(err))
	}
	return nil
}
