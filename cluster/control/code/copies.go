package code

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/codestore"
	"github.com/phos-gpu/phos/cluster/messages"
)

// copyTime is how long one controller may take to get code from another one.
const copyTime = 2 * time.Minute

// Copies keeps code on several controllers, so that the next leader has it.
type Copies struct {
	*codestore.Store
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

// push sends code to another controller, unless that has it.
func (c *Copies) push(ctx context.Context, address string, ref *api.CodeRef) error {
	file, err := c.Open(ref)
	if err != nil {
		return err
	}
	defer file.Close()
	return c.ask(ctx, address, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := messages.SendCode(ctx, api.NewLaunchesClient(conn), ref, file)
		return err
	})
}

// Fetch gets code that this controller lacks from one that has it. ErrNotFound means that each
// controller was asked, and that none has it; ErrUnavailable, that some could not be asked.
func (c *Copies) Fetch(ctx context.Context, ref *api.CodeRef) error {
	if err := codestore.Check(ref); err != nil || c.Has(ref) {
		return err
	}
	others, err := c.Others(ctx)
	if err != nil {
		return err
	}
	var unasked []string
	for _, address := range others {
		err := c.pull(ctx, address, ref)
		if err == nil {
			return nil
		}
		if !errors.Is(err, api.ErrNotFound) {
			unasked = append(unasked, err.Error())
		}
	}
	if len(unasked) == 0 {
		return fmt.Errorf("%w: no controller has code %.12x", api.ErrNotFound, ref.GetHash())
	}
	return &api.Error{Err: api.ErrUnavailable, Text: fmt.Sprintf(
		"no controller that answers has code %.12x: %s", ref.GetHash(), strings.Join(unasked, "; "))}
}

// pull gets code from another controller.
func (c *Copies) pull(ctx context.Context, address string, ref *api.CodeRef) error {
	return c.ask(ctx, address, func(ctx context.Context, conn *grpc.ClientConn) error {
		from, err := api.NewAgentsClient(conn).GetCode(ctx, ref)
		if err == nil {
			err = c.Receive(ref, from.Recv)
		}
		if err != nil {
			return fmt.Errorf("get code: %w", api.FromStatus(err))
		}
		return nil
	})
}

// ask connects to another controller for one copy.
func (c *Copies) ask(ctx context.Context, address string, do func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, copyTime)
	defer cancel()
	conn, err := c.Dial(address)
	if err != nil {
		return fmt.Errorf("connect to controller %s: %w", address, err)
	}
	defer conn.Close()
	if err := do(ctx, conn); err != nil {
		return fmt.Errorf("controller %s: %w", address, err)
	}
	return nil
}
