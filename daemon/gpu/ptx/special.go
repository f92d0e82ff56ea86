package ptx

import "strings"

// specialRegister is a special register and the type it reads as.
type specialRegister struct {
	special Special
	typ     Type
}

// specialRegisters are the special registers that mov and cvt read.
var specialRegisters = func() map[string]specialRegister {
	table := map[string]specialRegister{
		"%laneid": {LaneID, U32}, "%warpid": {WarpID, U32}, "%nwarpid": {NwarpID, U32},
		"%smid": {SMID, U32}, "%nsmid": {NSMID, U32}, "%gridid": {GridID, U64},
		"%lanemask_eq": {LanemaskEQ, U32}, "%lanemask_le": {LanemaskLE, U32}, "%lanemask_lt": {LanemaskLT, U32},
		"%lanemask_ge": {LanemaskGE, U32}, "%lanemask_gt": {LanemaskGT, U32},
		"%clock": {Clock, U32}, "%clock_hi": {ClockHi, U32}, "%clock64": {Clock64, U64},
		"%globaltimer": {Globaltimer, U64}, "%globaltimer_lo": {GlobaltimerLo, U32}, "%globaltimer_hi": {GlobaltimerHi, U32},
		"%dynamic_smem_size": {DynamicSmemSize, U32}, "%total_smem_size": {TotalSmemSize, U32},
		"%cluster_ctarank": {ClusterCtarank, U32}, "%cluster_nctarank": {ClusterNctarank, U32},
	}
	for name, x := range map[string]Special{
		"%tid": TidX, "%ntid": NtidX, "%ctaid": CtaidX, "%nctaid": NctaidX,
		"%cluster_ctaid": ClusterCtaidX, "%cluster_nctaid": ClusterNctaidX,
		"%clusterid": ClusteridX, "%nclusterid": NclusteridX,
	} {
		table[name+".x"] = specialRegister{x, U32}
		table[name+".y"] = specialRegister{x + 1, U32}
		table[name+".z"] = specialRegister{x + 2, U32}
	}
	return table
}()

// refusedSpecials exist in the ISA but not here, numbers at the end left off. An error names them as what they are.
var refusedSpecials = map[string]bool{
	"%envreg": true, "%pm": true, "%is_explicit_cluster": true, "%aggr_smem_size": true, "%current_graph_exec": true,
	"%reserved_smem_offset_begin": true, "%reserved_smem_offset_end": true, "%reserved_smem_offset_cap": true,
	"%reserved_smem_offset_": true, "%tid": true, "%ntid": true, "%ctaid": true, "%nctaid": true,
}

// specialStem is a name without the number at its end.
func specialStem(name string) string {
	return strings.TrimRight(strings.TrimSuffix(name, "_64"), "0123456789")
}

// readableAs reports whether mov or cvt may read the register with type t.
func (s specialRegister) readableAs(t Type) bool {
	family := types[t].family
	if family != familyBits && family != familyInteger {
		return false
	}
	switch t.Bits() {
	case 16:
		return s.typ == U32 // as in texts from before these registers had 32 bits
	case 32:
		return s.typ == U32 || s.special == GridID
	}
	return t.Bits() == s.typ.Bits()
}
