#!/bin/sh
# Stands where Triton looks for ptxas (TRITON_PTXAS_PATH): the driver gets the PTX itself, which the
# software GPU can run.
# Triton takes the newest PTX that the version named here knows.
in='' out=''
while [ $# -gt 0 ]; do
	case $1 in
	--version)
		echo "Cuda compilation tools, release 12.4, V12.4.131"
		exit 0
		;;
	-o)
		out=$2
		shift
		;;
	*.ptx) in=$1 ;;
	esac
	shift
done
exec cp "$in" "$out"
