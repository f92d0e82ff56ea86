package config

import "github.com/pelletier/go-toml/v2/unstable"

// GPUs says which GPUs phosd offers, and how it keeps them.
type GPUs struct {
	Offer     string `toml:"offer" comment:"GPUs to offer: auto, soft:N[,deterministic][,memory=8GiB][,blank], cuda"`
	Driver    string `toml:"driver" comment:"library to open as the driver of real GPUs; empty: libcuda.so.1, by the loader"`
	Exclusive bool   `toml:"exclusive" comment:"keep processes that are not phosd's from opening NVIDIA's devices"`
}

// short are tables that may be given as one value, of one key in them: gpus = "soft:2".
var short = map[string]string{"gpus": "offer"}

// lengthen turns the short form of a table into one of its keys: gpus.offer = "soft:2". Lines stay
// where they are.
func lengthen(text []byte) []byte {
	var parser unstable.Parser
	parser.Reset(text)
	var longer []byte
	done := 0
	for parser.NextExpression() {
		node := parser.Expression()
		if node.Kind == unstable.Table || node.Kind == unstable.ArrayTable {
			break // what comes now is in a table
		}
		if node.Kind != unstable.KeyValue || node.Value().Kind != unstable.String {
			continue
		}
		key := node.Key()
		if !key.Next() || !key.IsLast() || short[string(key.Node().Data)] == "" {
			continue
		}
		end := int(key.Node().Raw.Offset + key.Node().Raw.Length)
		longer = append(append(longer, text[done:end]...), "."+short[string(key.Node().Data)]...)
		done = end
	}
	return append(longer, text[done:]...)
}
