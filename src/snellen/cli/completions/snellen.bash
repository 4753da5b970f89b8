# Completion of snellen for bash (4.4 or later), and for zsh by its bashcompinit.

_snellen_words() { # the path of a command: its options as NAME or NAME=KIND, and the kind of its arguments
    case "$1" in
    # COMMANDS
    esac
}

_snellen_runs() { # the run folders below results/, or below the folder that was typed
    local place meta
    place="results/"
    [[ $1 == */* ]] && place="${1%/*}/"
    for meta in "$place"*/run_meta.json "$place"*/*/run_meta.json; do
        [[ -e $meta ]] && printf '%s\n' "${meta%/run_meta.json}"
    done
}

_snellen() {
    local word before options taken path kind found line at
    word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" options="" taken="" path="" kind=""
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD && at < 3; at++)); do # a command, or a group and its command
        _snellen_words "$path"
        [[ "|$taken|" == *"|${COMP_WORDS[at]}|"* ]] || break
        path="${path:+$path }${COMP_WORDS[at]}"
    done
    options="" taken=""
    _snellen_words "$path"
    if [[ $word == "=" ]]; then # bash makes a word of its own of = and of :
        word=""
    elif [[ $before == "=" ]]; then
        before="${COMP_WORDS[COMP_CWORD-2]}"
    fi
    [[ ${COMP_WORDS[COMP_CWORD]} == ":" ]] && before=":" word=""
    if [[ $before == ":" ]]; then
        kind="@files"
        [[ " ${COMP_WORDS[*]} " == *" replay : "* ]] && kind="@runs"
    elif [[ $before == -* && " $options " == *" $before="* ]]; then
        kind=" $options "
        kind="${kind#*" $before="}"
        kind="${kind%% *}"
    elif [[ $word == -* ]]; then
        found=""
        for line in $options; do found="$found ${line%%=*}"; done
        COMPREPLY=($(compgen -W "$found" -- "$word"))
        return
    else
        kind="$taken"
    fi
    case "$kind" in
    "" | @files) return ;; # what the shell completes by itself
    @models) found="@MODELS@" ;;
    @benchmarks) found="@BENCHMARKS@" ;;
    @recipes) found="@RECIPES@" ;;
    @profiles) found="@PROFILES@" ;;
    @runs)
        while IFS= read -r line; do
            [[ $line == "$word"* ]] && COMPREPLY+=("$(printf '%q' "$line")")
        done < <(_snellen_runs "$word")
        return
        ;;
    *) found="${kind//|/ }" ;;
    esac
    COMPREPLY=($(compgen -W "$found" -- "$word"))
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *: ]]; then
        type compopt >/dev/null 2>&1 && compopt -o nospace
    fi
}

if [[ -n ${ZSH_VERSION-} ]]; then
    autoload -U +X bashcompinit && bashcompinit
fi
complete -o bashdefault -o default -F _snellen snellen
