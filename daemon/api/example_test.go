package api_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/daemon/api"
)

// fakePhosd answers Status as a phosd that serves one program.
type fakePhosd struct {
	api.UnimplementedDaemonServer
}

func (fakePhosd) Status(context.Context, *api.StatusRequest) (*api.StatusReply, error) {
	return &api.StatusReply{
		Daemon:   &api.DaemonStatus{Gpus: "soft:1"},
		Programs: []*api.Program{{Pid: 4711, Description: &api.Description{JobName: "train"}}},
	}, nil
}

// startFakePhosd serves a fakePhosd on a new socket.
func startFakePhosd() (socket string, stop func()) {
	dir, err := os.MkdirTemp("", "phos")
	if err != nil {
		log.Fatal(err)
	}
	socket = filepath.Join(dir, "phosd.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(api.PeerCredentials{}), grpc.UnaryInterceptor(api.ServerErrors))
	api.RegisterDaemonServer(server, fakePhosd{})
	go func() { _ = server.Serve(listener) }()
	return socket, func() {
		server.Stop()
		_ = os.RemoveAll(dir)
	}
}

// Connect to phosd and list the programs that it serves. For the phosd of this machine dial
// api.Socket().
func ExampleDial() {
	socket, stop := startFakePhosd()
	defer stop()

	client, err := api.Dial(socket)
	if err != nil {
		fmt.Println(err) // errors.Is(err, api.ErrNoDaemon) if no phosd runs
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	status, err := client.Daemon.Status(ctx, &api.StatusRequest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("GPUs:", status.GetDaemon().GetGpus())
	for _, program := range status.GetPrograms() {
		fmt.Println("pid", program.GetPid(), "runs job", program.GetDescription().GetJobName())
	}
	// Output:
	// GPUs: soft:1
	// pid 4711 runs job train
}
