package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

// silentRestores asks for restores of streams that never send anything, COUNT of them. It prints an
// error for each that fails, and returns when all have ended.
func silentRestores(arguments []string) error {
	socket := api.Socket()
	count, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}
	ctx := context.Background()
	var restores sync.WaitGroup
	for range count {
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		defer write.Close()
		client, err := api.Dial(socket)
		if err != nil {
			return err
		}
		token, err := fdtoken.Send(ctx, socket, []*os.File{read})
		for errors.Is(err, fdtoken.ErrTooMany) { // until phosd has taken the others
			time.Sleep(time.Millisecond)
			token, err = fdtoken.Send(ctx, socket, []*os.File{read})
		}
		if err != nil {
			return err
		}
		stream, err := client.Daemon.Restore(ctx)
		if err == nil {
			err = stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Begin{
				Begin: &api.RestoreBegin{Files: token, Stream: true},
			}})
		}
		if err != nil {
			return err
		}
		restores.Go(func() {
			defer client.Close()
			_, err := stream.Recv()
			fmt.Println("refused:", err)
		})
	}
	restores.Wait()
	return nil
}
