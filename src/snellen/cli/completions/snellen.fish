# Completion of snellen for fish.

function __snellen_words --no-scope-shadowing # the path of a command: its options as NAME or NAME=KIND, and its arguments' kind
    switch "$argv[1]"
    # COMMANDS
    end
end

function __snellen
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l path
    set -l options
    set -l taken
    for given in $words[2..3]
        set options
        set taken
        __snellen_words "$path"
        contains -- $given (string split '|' -- $taken); or break
        set -a path $given
    end
    set options
    set taken
    __snellen_words "$path"
    set -l kind $taken
    set -l asked (string match -r -- '^'(string escape --style=regex -- $words[-1])'=(.*)$' $options)[2]
    if test -n "$asked"
        set kind $asked
    else if string match -q -- '-*' $word
        string replace -r -- '=.*' '' $options
        return
    end
    switch "$kind"
        case '' @files
            __fish_complete_path $word
        case @models
            string split ' ' '@MODELS@'
        case @benchmarks
            string split ' ' '@BENCHMARKS@'
            __fish_complete_path $word
        case @recipes
            string split ' ' '@RECIPES@'
        case @profiles
            string split ' ' '@PROFILES@'
        case @runs
            set -l metas results/*/run_meta.json results/*/*/run_meta.json # `set` takes no match for none
            string replace '/run_meta.json' '' $metas
            string match -q 'results/*' $word; or __fish_complete_path $word
        case '*'
            string split '|' -- $kind
    end
end

complete -c snellen -f -a '(__snellen)'
