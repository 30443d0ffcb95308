"""Programs that only read, with the options by which they do more.

Line: `names: base detail; action options…`. Bases: `read` (operands are files whose content is
read), `list` (operands are paths that are looked at), `pattern` (the first operand is a pattern,
the rest files), `text` (operands mean nothing to the machine), `none` (an operand would change
something); any other base is a handler's name. Actions: `value` (takes a harmless value),
`write`, `read`, `run`, `ask`, `network`, `danger`, `pattern`, `recursive`, `code`;
`warn` asks like `ask`, but a file of that name could do little harm.
Sources: the programs' manual pages (GNU coreutils 9.1, util-linux 2.38, procps 4 and others).
"""

TABLE = """
cat rev sum tsort: read
tac: read; value s separator
nl: read; value b d f h i l n s v w
expand unexpand: read; value t tabs
fmt: read; value w p g width goal prefix
cksum: read; value a algorithm
od: read; value A j N S t address-radix skip-bytes read-bytes format
hexdump hd: read; value e n s; read f
strings: binutils; value n t e T s bytes radix encoding target output-separator
size readelf: binutils
md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum crc32: read
shasum: read; value a algorithm
cmp: read; value i n bytes ignore-initial
comm: read; value output-delimiter
join: read; value t o e a v 1 2 j
look: read; value t terminate
fold: read; value w width
head: read; value n c lines bytes
tail: read; value n c s lines bytes sleep-interval pid
wc: read; read files0-from
cut: read; value d f c b fields bytes characters delimiter output-delimiter
paste: read; value d delimiters
column: read; value s c o N R H E O W T n l r i p separator output-separator table-columns
    table-hide table-right table-order table-wrap table-truncate table-name output-width
pr: read; value h l w o D N W header length width indent date-format page-width
base32 base64 basenc: read; value w wrap; write o output
sort: read; value k t S key field-separator buffer-size batch-size parallel; write o output; ask=
    T temporary-directory; run compress-program; read files0-from random-source
uniq: uniq; value f s w skip-fields skip-chars check-chars
shuf: read; value n i input-range head-count; pattern e echo; write o output; read random-source
bc: read
tr seq expr basename dirname pathchk factor numfmt: text; value s f w d suffix separator format
    field from to padding
true false sleep yes pwd logname tty arch nproc whoami groups id uptime hostid: text; value n s
echo printf: echo; value v
test [: test
cal ncal units: text; value m A B
realpath readlink namei lsattr getcap: list; value v relative-to relative-base
getfacl: list
ls dir vdir lsd: list; value I w T ignore width tabsize hide block-size time-style sort format color
exa eza: list; value s L I t sort level ignore-glob time
tree: list; value L P I H T filelimit charset sort timefmt; write o; ask R
stat: list; value c f printf format
file: read; value F e P separator exclude parameter; read f m files-from magic-file; warn C z Z
    compile uncompress
du: list; value d B t max-depth block-size threshold exclude time-style; read X exclude-from
    files0-from
df: list; value t x B type exclude-type block-size output
grep egrep fgrep zgrep zegrep zfgrep bzgrep xzgrep: pattern; value A B C D d m after-context
    before-context context max-count include exclude exclude-dir binary-files color colour label
    directories devices; pattern e regexp; read f file exclude-from; recursive r R recursive
    dereference-recursive
rg: pattern; value A B C E M T d g j m r t after-context before-context context encoding glob
    iglob max-count max-columns max-depth replace sort sortr threads type type-not color colors
    engine max-filesize type-add; pattern e regexp; read f file ignore-file; run pre hostname-bin;
    ask z search-zip; recursive hidden uu uuu no-ignore
ag ack: pattern; value A B G m ignore ignore-dir depth type; run pager; ask z search-zip
zcat gzcat bzcat xzcat lzcat zstdcat lz4cat lzmacat: read
zdiff zcmp bzdiff xzdiff: read
diff: read; value U C W L I x S F unified context width label ignore-matching-lines exclude
    starting-file palette color tabsize horizon-lines; read from-file to-file; recursive r
    recursive
diff3 wdiff colordiff: read; run diff-program
sdiff: read; write o output; run diff-program
jq: jq; value indent; pattern arg argjson; read f from-file slurpfile rawfile L
yq: yq; value o p I output-format input-format indent; ask i inplace in-place s split-exp;
    read from-file
xmllint: read; value xpath encode pattern maxmem; write o output; network load-trace catalogs
    valid noent loaddtd dtdattr postvalid xinclude noxincludenode; ask shell
    sax insert; read schema relaxng dtdvalid schematron
which type whereis: text
whatis apropos: text; ask C config-file
hash: none; ask r d p
ps: ps; value o p u t C G U g s format pid user sort ppid tty
pgrep: text; value u U G P t g s; read F pidfile
pidof pstree: text; value u U G P t g s
top: top; value n d p u U o
free: text; value s c seconds count
pmap: text; value A c n N; read C
dircolors: read
sar: text; value u s e i; read f; ask o
vmstat iostat mpstat: text
pidstat: text; value C G p T; ask e
w: text; value n
who users: read
last lastb: text; value n p s t since until time-format; read f file
lastlog: text; value b t u; ask C clear S set R root
lsof: text; value i p u c a d g r; write D
uname lscpu lsmem lsmod lsns lsipc lslogins lslocks modinfo: text; value e p o s d output
lspci: text; value s d; plain v k n t m mm nn vv vvv b D x xxx P; read i p; ask *
lsusb: text; value s d; plain v t V version; read D; ask *
lsblk findmnt: text; value o t n s L U output
blkid: text; value o s t; ask c g
nvidia-smi: none; value i d l q query-gpu format id loop display; write f filename; ask r
    gpu-reset pm pl ac
sensors: text; ask s set
getconf: text
iconv: read; value f t from-code to-code; write o output
xxd: xxd; value l s c g o n
ss: text; value f A family query; ask K kill; write D diag; read F filter
netstat: text; value A
getent: getent
ipcs: text; value i
identify: media; value format; plain verbose ping quiet version help; ask *
mediainfo: media; read Inform Output; plain f Full version Version help Help; ask *
ffprobe: media; ask= f; value v loglevel show_entries print_format of select_streams i; plain
    hide_banner show_format show_streams show_chapters show_packets show_frames show_data
    count_frames count_packets pretty unit sexagesimal prefix byte_binary_prefix version formats
    codecs; ask *
pdfinfo pdffonts: read; value f l
zipinfo: read
diffstat: read; value p n D w f N; write o e
lsdiff: read; value p n D w
csvclean: write
csvlook csvcut csvstat csvsort: read; value c d e q y delimiter quotechar encoding columns
    snifflimit
csvgrep: read; value c d e q m r y delimiter quotechar encoding columns match regex snifflimit;
    read f file
ldconfig: verbs -p --print-cache -V --version; plain p print-cache V version; ask *
tokei: list; value e exclude o output s sort t type c columns; plain C f files hidden no-ignore V
    version h help; ask *
cloc: list; value exclude-dir exclude-ext include-lang include-ext exclude-lang; plain by-file
    by-file-by-lang json yaml csv xml md quiet hide-rate progress-rate vcs version help; ask *
scc: list; value exclude-dir i include-ext f format s sort; plain by-file no-cocomo w wide version
    help; ask *
dmesg: none; value l f s level facility time-format since until buffer-size; read F file K
    kmsg-file; ask C c D E n clear read-clear console-off console-on console-level
journalctl: none; value n u p S U t g o since until unit priority identifier grep output user-unit
    lines facility; read D file directory root image; danger vacuum-size= vacuum-time=
    vacuum-files=; write cursor-file; ask rotate relinquish-var flush sync setup-keys update-catalog
bat batcat: read; value l r H m language line-range highlight-line style theme color wrap
    terminal-width tabs paging; run pager lessopen; ask= config-file; ask build clear
    generate-config-file
less more most: pager
lsb_release sw_vers: text
pygmentize: read; value l f O P F; write o; code x
hexyl: read; value n s c
fd fdfind: fd; value e t d E S j o c max-depth min-depth depth type extension exclude size color
    threads changed-within changed-before owner format max-results base-directory; run x X exec
    exec-batch
locate mlocate plocate: text; value n l d limit database
nm objdump: binutils; run plugin
c++filt addr2line: binutils; value e
mountpoint dirs times fc-list locale numastat systemd-detect-virt banner figlet: text; value f o c
dpkg-query: text; value f showformat admindir
swapon: none; ask a p all
jobs: text; ask x
compgen: text; run C; ask F V; code W
help: text
ulimit: ulimit
umask: text
cd pushd popd: cd
date: date
hostname: none; ask b F file
domainname dnsdomainname nisdomainname: none; ask F file
env: env
printenv: printenv
history: history
find: find
sed gsed: sed; value l line-length; pattern e expression; read f file
awk gawk mawk nawk: awk
git: git
xargs: xargs
tar bsdtar gtar: tar
read mapfile readarray getopts: readvar
shopt: shopt
set: set
unset: unset
export declare typeset local readonly: declare
let: let
wait: text; ask p
break continue return exit: text
shift: shift
exec: exec
man info: man
tldr: network
cowsay: text; ask f
apt-cache: text; ask o c option config-file
mount: mount
ip: ip
ifconfig: ifconfig
route arp: none
systemctl: systemctl
service: service
crontab: crontab
sysctl: sysctl
timedatectl localectl hostnamectl loginctl: verbs status list list-timezones show list-sessions
    list-users user-status session-status list-locales list-keymaps timesync-status; value p
    property n lines o output; plain a all l full value no-pager no-legend json static transient
    pretty; ask *
docker podman nerdctl: docker
kubectl: cloud
pip pip3: pip
cargo: ask code
go: go
dpkg: dpkg
rpm: rpm
apt: verbs list show search policy; plain installed upgradable upgradeable a all-versions n
    names-only f full q quiet; ask *
brew: verbs list leaves config --prefix --version; plain prefix version versions formula cask 1 l r
    t full-name pinned v; ask *
snap: verbs list; plain all color unicode; ask *
flatpak: verbs list info; value columns arch; plain app runtime user system d show-details a all r
    m s c show-ref show-commit show-origin show-size show-metadata; ask *
gem: verbs list environment; value v version; plain l local a all d details i installed no-versions
    versions q quiet; ask *
conda mamba: verbs list info; value n name p prefix; plain e envs json a all export explicit
    revisions full-name c canonical base; ask *
tmux: tmux ls list-sessions list-windows list-panes list-keys; value t T; plain a s N 1; ask *
screen: screen
gpg gpg2: gpg
openssl: openssl
unzip: unzip
gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4: compress
7z 7za 7zr: sevenzip
time: time
command builtin: command
nohup setsid stdbuf nice ionice chrt taskset timeout watch flock unbuffer chronic: wrap
busybox toybox: busybox
coproc: coproc
sudo doas pkexec su runuser gosu: sudo
parallel: parallel
bash sh dash zsh ksh ash rbash: shell
eval: eval
source .: source
trap: trap
alias: alias
unalias: ask alias
enable bind complete compopt suspend bg fg fc logout: ask builtin
disown: ask stays
tput: text
stty: none; read F file; value a
curl: curl
wget: wget
ssh: ssh
strace ltrace: ask code
kill: kill
killall pkill skill: killall
"""
