package daemon

import (
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// refusal is the message that libphos.so turns into an error code and a line on the program's standard error.
func refusal(code abi.Result, reason error) []byte {
	welcome := wire.Welcome{Status: code, Message: reason.Error()}
	return welcome.Append(nil)
}
