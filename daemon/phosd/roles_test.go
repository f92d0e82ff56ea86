package phosd_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/phosd"
	"github.com/phos-gpu/phos/daemon/worker"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// The test binary plays every part by itself: phosd, its workers and the programs are processes of
// their own, because what is tested is how they live and die.
const (
	phosdRole   = "PHOS_TEST_PHOSD"   // the configuration, as JSON
	programRole = "PHOS_TEST_PROGRAM" // the socket
	// requesterRole wins over programRole.
	requesterRole = "PHOS_TEST_REQUESTER"
)

// playRequester opens as many connections for requests as it is told, and asks for the status over
// each and once more over the first: it says how many answered, and the first error. It does so
// again for every line of input: more, or none.
func playRequester(socket string) error {
	var clients []*api.Client
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		many, err := strconv.Atoi(input.Text())
		if err != nil {
			return err
		}
		for ; len(clients) > many; clients = clients[:len(clients)-1] {
			_ = clients[len(clients)-1].Close()
		}
		for len(clients) < many {
			client, err := api.Dial(socket)
			if err != nil {
				return err
			}
			clients = append(clients, client)
		}
		answered, first := 0, error(nil)
		for _, client := range clients {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			_, err := client.Daemon.Status(ctx, &api.StatusRequest{})
			cancel()
			if err == nil {
				answered++
			} else if first == nil {
				first = err
			}
		}
		fmt.Println("answered", answered, first)
	}
	return input.Err()
}

func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "worker":
		err = worker.Run(openIdle)
	case os.Getenv(phosdRole) != "":
		err = playPhosd(os.Getenv(phosdRole))
	case os.Getenv(requesterRole) != "":
		err = playRequester(os.Getenv(programRole))
	case os.Getenv(programRole) != "":
		err = playProgram(os.Getenv(programRole))
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// idle is a backend whose GPUs are not used: these tests are about processes.
type idle struct{}

func (idle) Devices() []gpu.DeviceInfo {
	return []gpu.DeviceInfo{{Name: "idle GPU", MemoryBytes: 1 << 30, Attributes: map[abi.DeviceAttribute]int32{75: 9}}}
}

func (idle) NewContext(int, gpu.ContextOptions) (gpu.Context, error) {
	return nil, &gpu.Error{Op: "new context", Code: abi.NotSupported}
}

func (idle) Close() error { return nil }

func playPhosd(text string) error {
	var settings config.Config
	if err := json.Unmarshal([]byte(text), &settings); err != nil {
		return err
	}
	server, err := phosd.New(phosd.Options{
		Config:    settings,
		Inventory: func(string) ([]gpu.DeviceInfo, error) { return idle{}.Devices(), nil },
		Driver:    openMadeDriver,
		Log:       slog.New(settings.Log.Handler(os.Stderr)),
		WorkerLog: os.Stderr,
		Ready:     func([]gpu.DeviceInfo) { fmt.Println("ready") },
	})
	if err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if err := server.Serve(ctx); err != nil {
		return err
	}
	return server.Close()
}

// playProgram does what libphos.so does, and then what its standard input says.
func playProgram(socket string) error {
	file, err := join(socket)
	if err != nil {
		fmt.Println("refused:", err)
		return nil
	}
	fmt.Println("live", file.Header().Session)
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		switch input.Text() {
		case "dead?":
			for file.Word32(wire.WordDead).Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			fmt.Println("dead")
		case "sticky?":
			for file.Word32(wire.WordSticky).Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			fmt.Println("sticky", abi.Result(file.Word32(wire.WordSticky).Load()))
		case "exec":
			return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
		case "sleep":
			return syscall.Exec("/bin/sleep", []string{"sleep", "1000"}, nil)
		case "damage":
			// A frame of no length: nothing that libphos.so would write.
			file.Word64(wire.WordHead).Store(64)
			file.Word32(wire.WordDoorbell).Store(0)
			wire.Wake(file.Word32(wire.WordDoorbell))
		case "lengthen":
			fmt.Println("lengthened", lengthen())
		case "create":
			fmt.Println("created", os.WriteFile(filepath.Join(filepath.Dir(arenaFile.Name()), "more"), nil, 0o600))
		case "fds":
			entries, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				return err
			}
			var sockets []string
			for _, entry := range entries {
				target, _ := os.Readlink("/proc/self/fd/" + entry.Name())
				if strings.HasPrefix(target, "socket:") {
					sockets = append(sockets, target)
				}
			}
			fmt.Println("sockets", len(sockets))
		}
	}
	return input.Err()
}

// cookie is what the worker looks for in this process.
var cookie = [1]uint64{0x600dc0de600dc0de}

func join(socket string) (*wire.File, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	version := uint32(wire.Version)
	if os.Getenv("PHOS_TEST_VERSION") != "" {
		version += 7
	}
	hello := wire.Hello{Version: version, CookieAddress: cookieAddress(), Cookie: cookie[0], PID: uint32(os.Getpid())}
	if _, err := conn.Write(hello.Append(nil)); err != nil {
		return nil, err
	}
	message := make([]byte, wire.WelcomeBytes)
	if _, err := io.ReadFull(conn, message); err != nil {
		return nil, err
	}
	var welcome wire.Welcome
	if _, err := welcome.Decode(message); err != nil {
		return nil, err
	}
	if welcome.Status != abi.Success {
		return nil, fmt.Errorf("%w: %s", welcome.Status, welcome.Message)
	}
	if welcome.Message != "" {
		fmt.Println("told:", welcome.Message)
	}
	file, err := wire.Open(welcome.SessionPath)
	if err != nil {
		return nil, err
	}
	return file, agree(conn, welcome)
}

// arenaFile is what libphos.so closes and a hostile program does not.
var arenaFile *os.File

// lengthen takes 40 MiB in the memory for sessions.
func lengthen() error {
	return syscall.Fallocate(int(arenaFile.Fd()), 0, 0, 40<<20)
}

func agree(conn net.Conn, welcome wire.Welcome) error {
	arena, err := wire.OpenArena(welcome.ArenaPath)
	if err != nil {
		return err
	}
	defer arena.Close()
	if arenaFile, err = os.OpenFile(welcome.ArenaPath, os.O_RDWR, 0); err != nil {
		return err
	}
	// The first proposal is one that the worker must refuse.
	for _, address := range []uint64{0xc000000000, wire.ArenaFirst} {
		if _, err := conn.Write(binary.LittleEndian.AppendUint64(nil, address)); err != nil {
			return err
		}
		var placed [wire.PlacedBytes]byte
		if _, err := io.ReadFull(conn, placed[:]); err != nil {
			return err
		}
		if binary.LittleEndian.Uint32(placed[:]) == 0 {
			return arena.Place(address)
		}
	}
	return fmt.Errorf("no place for the arena")
}
