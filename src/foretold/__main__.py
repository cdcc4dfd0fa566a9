from foretold.cli import main

main()
